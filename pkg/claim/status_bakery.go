package claim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	schema "compactor/pkg/claim/bakery"
)

// Status implements Observer. It shows the claims of all nodes as this one knows them.
func (b *bakery) Status(ctx context.Context, key Key) (Status, error) {
	if err := key.Validate(); err != nil {
		return Status{}, err
	}
	s := Status{Key: key, Mode: ModeBakery, Reference: key.String()}
	err := b.server.look(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		all, err := b.server.bakeryClaims(ctx, conn, s.Reference)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			all[0].Key = key
			s = all[0]
			return nil
		}
		return b.server.queue(ctx, conn, &s)
	})
	return s, err
}

// bakeryClaims returns one status for each table that has a claim, or for the one table.
func (s *pgServer) bakeryClaims(ctx context.Context, conn *pgx.Conn, table string) ([]Status, error) {
	if err := s.granted(ctx, conn, writerRole, statusFunctions()); err != nil {
		return nil, err
	}
	claims, err := schema.Status(ctx, conn, table)
	if err != nil {
		return nil, s.classifyBakery(fmt.Errorf("PostgreSQL %s: %w", s.where, err))
	}
	var all []Status
	for _, c := range claims { // In the order of the tables.
		if len(all) == 0 || all[len(all)-1].Reference != c.Table {
			all = append(all, Status{Mode: ModeBakery, Reference: c.Table})
		}
		all[len(all)-1].add(c)
	}
	for i := range all {
		if err := s.queue(ctx, conn, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add puts one claim where it belongs: those that have entered come first.
func (s *Status) add(c schema.Claim) {
	p := Party{Name: c.Holder, PID: int64(c.Pid), Node: c.Node, Ticket: fmt.Sprint(c.Ticket), For: c.Age}
	var lacks []string
	for _, m := range c.Missing {
		p.Missing = append(p.Missing, Missing{Node: m.Node, Why: m.Why()})
		lacks = append(lacks, m.Node+" ("+m.Why()+")")
	}
	switch {
	case c.Orphan:
		s.Notes = append(s.Notes, fmt.Sprintf("ticket %d of this node (%s, %s old) has no session any more; the next claim of this node removes it",
			c.Ticket, c.Holder, c.Age.Round(time.Second)))
	case c.Entered && s.Holder == nil:
		p.For = c.HeldFor
		if len(lacks) > 0 {
			p.Detail = "went on without " + strings.Join(lacks, ", ")
		}
		s.Holder = &p
	default:
		if len(lacks) > 0 {
			p.Detail = "no answer yet from " + strings.Join(lacks, ", ")
		}
		s.Waiters = append(s.Waiters, p)
	}
}

// bakeryOwnerKey is the key of the node-local lock, as the schema computes it.
const bakeryOwnerKey = `hashtextextended('bakery owner ' || $1::text, 0)`

// queue adds those who have no ticket yet: behind the one writer that this node has among the claims, others queue in the node-local lock.
func (s *pgServer) queue(ctx context.Context, conn *pgx.Conn, into *Status) error {
	local := Status{Reference: into.Reference}
	if err := s.parties(ctx, conn, bakeryOwnerKey, &local); err != nil {
		return err
	}
	into.Waiters = append(into.Waiters, local.Waiters...)
	return nil
}
