// Package bakery installs and looks after the bakery in plain PostgreSQL 15 and later: the schema that holds the protocol, and the
// mesh of logical replication that joins the nodes.
//
// # What is where
//
// The protocol is the SQL under sql/, in schema bakery: a writer calls lock, hello, claim, enter, poke, holding, withdraw and release;
// replica triggers act for a node when rows of its peers arrive. This package runs the migrations, creates publications, slots and
// subscriptions, changes the membership one node at a time, and finds what is wrong. It takes no claims on tables; mode bakery of
// package claim does.
//
// # Mesh
//
// Every node publishes its own rows (publication "bakery") and subscribes to every other node. The subscription of node s to node p
// and the slot on p that feeds it are both named bakery_<mesh>_<s>_from_<p>, with node numbers. A node may be a database of its own
// server or share a server with others.
//
// # Membership
//
// Nodes are added and removed one at a time, under a claim on the name "bakery.membership" that every member acks. The change has a
// version; a node that joins may draw tickets only when every member shows the version that names it. Two consecutive versions differ
// by one node, so their majorities meet.
//
// # Failure
//
// Install may be run again after any error or crash: it finds what is there and goes on. It changes nothing before every node has
// passed every check. Preview and PreviewRemoval say what Install and Remove would do.
//
// # Secrets
//
// Connection strings are kept by PostgreSQL in pg_subscription, where only superusers read them. This package repeats no password in
// errors or log lines, and keeps the statements that hold one out of the server's log where its role may set that.
package bakery
