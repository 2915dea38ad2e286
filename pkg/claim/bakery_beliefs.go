package claim

import (
	"sync"
	"time"
)

// beliefs are what this process has seen of the peers of its node, by its own monotonic clock. They outlive a claim, so that a node
// that is down is waited for once and not by every claim. Safe for concurrent use.
type beliefs struct {
	now func() time.Time

	mu sync.Mutex
	// heartbeats holds the last heartbeat of each peer as our own node sees it.
	heartbeats map[int]sighting
	// reports holds, for each peer that answers, what it says of the others.
	reports map[report]sighting
	// contacts holds when the newest question was sent that a peer has answered: it was reached after that moment.
	contacts map[int]time.Time
}

// report is one node's view of another.
type report struct{ by, of int }

// sighting is a heartbeat that has not changed since the given moment, when it was first seen, until the latter, when the newest look
// at it was sent.
type sighting struct {
	heartbeat    string
	since, until time.Time
}

func newBeliefs(now func() time.Time) *beliefs {
	return &beliefs{now: now, heartbeats: map[int]sighting{}, reports: map[report]sighting{}, contacts: map[int]time.Time{}}
}

// stood is how long the heartbeat is known to have stood still.
func (s sighting) stood() time.Duration { return s.until.Sub(s.since) }

// update follows a heartbeat that was asked for at sent and has just arrived.
func (s sighting) update(heartbeat string, sent, arrived time.Time) sighting {
	if s.since.IsZero() || s.heartbeat != heartbeat {
		return sighting{heartbeat: heartbeat, since: arrived, until: arrived}
	}
	if sent.After(s.until) {
		s.until = sent
	}
	return s
}

// reached records that the peer answered a question sent at that moment.
func (b *beliefs) reached(peer int, sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.contacts[peer]) {
		b.contacts[peer] = sent
	}
}

// saw records a peer's heartbeat at our own node.
func (b *beliefs) saw(peer int, heartbeat string, sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heartbeats[peer] = b.heartbeats[peer].update(heartbeat, sent, b.now())
}

// reported records what a peer says of another, in answer to a question sent at that moment.
func (b *beliefs) reported(by, of int, heartbeat string, sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := report{by, of}
	b.reports[r] = b.reports[r].update(heartbeat, sent, b.now())
}

// silence returns how long the peer's heartbeat at our node has stood still.
func (b *beliefs) silence(peer int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heartbeats[peer].stood()
}

// inContact lists the peers that answered a question sent within the given time.
func (b *beliefs) inContact(peers []int, within time.Duration) []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []int
	for _, p := range peers {
		if at, ok := b.contacts[p]; ok && b.now().Sub(at) <= within {
			found = append(found, p)
		}
	}
	return found
}

// majority tells whether this node and the peers it was in contact with within the given time are more than half of all nodes.
func (b *beliefs) majority(peers []int, within time.Duration) bool {
	return 2*(len(b.inContact(peers, within))+1) > len(peers)+1
}

// unreached tells whether every peer in contact says, in an answer no older than half a window, that it has not heard of the node for
// a whole window.
func (b *beliefs) unreached(node int, peers []int, window time.Duration) bool {
	contact := b.inContact(peers, window/2)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range contact {
		if p == node {
			return false
		}
		s, ok := b.reports[report{p, node}]
		if !ok || s.stood() < window || b.now().Sub(s.until) > window/2 {
			return false
		}
	}
	return true
}
