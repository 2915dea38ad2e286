package bakery

import (
	"context"
	"fmt"
	"strings"
)

// Severity ranks a finding.
type Severity string

// The severities. An Error keeps claims from working or from being safe; a Warning costs time or disk.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one thing that is wrong on a node, and how to mend it.
type Finding struct {
	Severity Severity `json:"severity"`
	// Code names the kind for programs, for instance "setting" or "slot_inactive".
	Code string `json:"code"`
	// Node is the name of the node that was looked at.
	Node string `json:"node"`
	// Text says what is wrong, Remedy the exact lines that mend it.
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// String puts the finding into one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: node %s: %s; mend it with: %s", f.Severity, f.Node, f.Text, f.Remedy)
}

// CheckError lists everything that keeps a node from being worked on; nothing was changed.
type CheckError struct{ Findings []Finding }

// Error lists the findings, one a line.
func (e *CheckError) Error() string {
	lines := make([]string, 0, len(e.Findings)+1)
	lines = append(lines, "nothing was changed:")
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// setting is a rule about one server setting. A value below least, in the setting's own unit, is too small.
type setting struct {
	name     string
	bad      func(value int64) bool
	want     string
	restart  bool
	severity Severity
	why      string
}

// settingRules returns the rules for a node with the given number of peers.
func settingRules(peers, version int) []setting {
	links := int64(peers)
	below := func(n int64) func(int64) bool { return func(v int64) bool { return v < n } }
	above := func(n int64) func(int64) bool { return func(v int64) bool { return v > n || v < 0 } }
	rules := []setting{
		{"max_wal_senders", below(2 * links), fmt.Sprint(max(10, 4*links)), true, Error, "each peer takes one, and one more while it copies"},
		{"max_replication_slots", below(2 * links), fmt.Sprint(max(10, 4*links)), true, Error, "each peer takes one, and one more while it copies"},
		{"max_logical_replication_workers", below(links + 1), fmt.Sprint(max(4, 2*links+2)), true, Error, "each subscription takes one, and one more while it copies"},
		{"max_worker_processes", below(links + 2), fmt.Sprint(max(8, 2*links+6)), true, Error, "replication workers are taken from it"},
		{"wal_retrieve_retry_interval", above(1000), "500ms", false, Warning, "it is the pause before a failed apply worker starts again"},
		{"wal_receiver_status_interval", above(2), "1s", false, Warning, "an idle node is heard of this often"},
	}
	if peers > 0 {
		rules = append(rules, setting{"max_slot_wal_keep_size", func(v int64) bool { return v < 0 }, "8GB", false, Warning,
			"without it the slot of a dead peer keeps WAL until the disk is full"})
	}
	if version >= 180000 {
		rules = append(rules, setting{"max_active_replication_origins", below(2 * links), fmt.Sprint(max(10, 4*links)), true, Error,
			"each subscription takes one, and one more while it copies"})
	}
	return rules
}

// checkSettings compares a node's settings with what a mesh of this size needs.
func (m *member) checkSettings(ctx context.Context, peers int) ([]Finding, error) {
	var found []Finding
	add := func(s Severity, text, name, value string, restart bool) {
		then := "SELECT pg_reload_conf();"
		if restart {
			then = "then restart the server."
		}
		found = append(found, Finding{Severity: s, Code: "setting", Node: m.Name, Text: text,
			Remedy: fmt.Sprintf("ALTER SYSTEM SET %s = '%s'; %s", name, value, then)})
	}
	var level string
	if err := m.ask(ctx, "read wal_level", []any{&level}, "SELECT current_setting('wal_level')"); err != nil {
		return nil, err
	}
	if level != "logical" && peers > 0 {
		add(Error, "wal_level is "+level+", the mesh needs logical", "wal_level", "logical", true)
	}
	for _, rule := range settingRules(peers, m.version) {
		var value int64
		err := m.ask(ctx, "read "+rule.name, []any{&value}, "SELECT setting::bigint FROM pg_settings WHERE name = $1", rule.name)
		if err != nil {
			return nil, err
		}
		if peers > 0 && rule.bad(value) {
			add(rule.severity, fmt.Sprintf("%s is %d, too far from %s: %s", rule.name, value, rule.want, rule.why), rule.name, rule.want, rule.restart)
		}
	}
	leaks, err := m.checkLeaks(ctx)
	return append(found, leaks...), err
}

// checkLeaks finds settings of the database or of a role in it that reach the apply workers and would keep them from answering.
func (m *member) checkLeaks(ctx context.Context) ([]Finding, error) {
	const query = `SELECT coalesce(r.rolname, ''), quote_ident(current_database()), s.line
  FROM pg_db_role_setting d CROSS JOIN LATERAL unnest(d.setconfig) AS s (line) LEFT JOIN pg_roles r ON r.oid = d.setrole
 WHERE (d.setdatabase = 0 OR d.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND (r.rolname IS NULL OR r.rolname = current_user OR r.rolname = 'bakery_owner')
   AND ((s.line LIKE 'default_transaction_isolation=%' AND s.line <> 'default_transaction_isolation=read committed')
     OR s.line IN ('default_transaction_read_only=on', 'default_transaction_read_only=true', 'session_replication_role=replica'))`
	rows, err := m.conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read settings of roles and database on node %s: %w", m.Name, err)
	}
	defer rows.Close()
	var found []Finding
	for rows.Next() {
		var role, db, line string
		if err := rows.Scan(&role, &db, &line); err != nil {
			return nil, fmt.Errorf("read settings of roles and database on node %s: %w", m.Name, err)
		}
		name, _, _ := strings.Cut(line, "=")
		where := "DATABASE " + db
		if role != "" {
			where = fmt.Sprintf("ROLE %q", role)
		}
		found = append(found, Finding{Severity: Error, Code: "setting_leaks", Node: m.Name,
			Text:   line + " reaches the apply workers, which then refuse to answer",
			Remedy: fmt.Sprintf("ALTER %s RESET %s;", where, name)})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read settings of roles and database on node %s: %w", m.Name, err)
	}
	return found, nil
}
