package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/tablename"
	"compactor/pkg/claim"
	"compactor/pkg/maintenance"
)

const claimStatusDescription = `Shows for each TABLE who holds its claim and who waits for it, for how long, and
since when as far as they state it; in mode bakery also the nodes whose acks are
missing, and why. It takes no claim and changes nothing.`

func claimStatusCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "show who holds a table and who waits for it",
		ArgsUsage:   "TABLE...",
		Description: claimStatusDescription,
		Flags:       claimFlagSet(),
		Action:      func(c *cli.Context) error { return claimStatus(c, env) },
	}
}

// statusReport is the one document of `claim status`.
type statusReport struct {
	Tables []tableStatus `json:"tables"`
}

type tableStatus struct {
	Table     string        `json:"table,omitempty"` // as it was asked for
	Mode      string        `json:"mode"`
	Key       string        `json:"key"`
	NamesFrom string        `json:"names_from,omitempty"` // of a table that was asked for
	Holder    *partyStatus  `json:"holder"`               // null: nobody
	Waiters   []partyStatus `json:"waiters"`
	Notes     []string      `json:"notes,omitempty"`
}

type partyStatus struct {
	Name    string              `json:"name,omitempty"`
	Role    string              `json:"role,omitempty"`
	PID     int64               `json:"server_process,omitempty"`
	Node    string              `json:"node,omitempty"`
	Ticket  string              `json:"ticket,omitempty"`
	For     maintenance.Seconds `json:"seconds"`            // 0: unknown
	AtLeast bool                `json:"at_least,omitempty"` // seconds is only a lower bound
	Detail  string              `json:"detail,omitempty"`
	Missing []missingStatus     `json:"missing_acks,omitempty"`
}

// missingStatus is a node of a mesh whose ack has not arrived, and why.
type missingStatus struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

func claimStatus(c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	idents, err := tables(c)
	if err != nil {
		return err
	}
	s, err := openClaimSession(c, env, false)
	if err != nil {
		return err
	}
	defer s.close()
	rep := statusReport{}
	for _, typed := range idents {
		ident, from, err := s.spelling(c.Context, typed)
		if err != nil {
			return err
		}
		st, err := claim.StatusOf(c.Context, s.claimer, s.claimKey(ident))
		if err != nil {
			return fmt.Errorf("%s: %w", tablename.String(ident), err)
		}
		rep.Tables = append(rep.Tables, describe(tablename.String(ident), from, st))
	}
	if format == outputJSON {
		return writeJSON(env.stdout, rep)
	}

	return rep.writeText(env.stdout)
}

func describe(name, from string, st claim.Status) tableStatus {
	out := tableStatus{
		Table: name, Mode: string(st.Mode), Key: st.Reference, NamesFrom: from,
		Waiters: []partyStatus{}, Notes: st.Notes,
	}
	if st.Holder != nil {
		p := party(*st.Holder)
		out.Holder = &p
	}
	for _, w := range st.Waiters {
		out.Waiters = append(out.Waiters, party(w))
	}

	return out
}

func party(p claim.Party) partyStatus {
	out := partyStatus{
		Name: p.Name, Role: p.Role, PID: p.PID, Node: p.Node, Ticket: p.Ticket,
		For: maintenance.Seconds(p.For), AtLeast: p.AtLeast, Detail: p.Detail,
	}
	for _, m := range p.Missing {
		out.Missing = append(out.Missing, missingStatus(m))
	}

	return out
}

func (r statusReport) writeText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(label, text string) {
		fmt.Fprintf(tw, "  %s\t%s\n", label, text) //nolint:errcheck // tabwriter keeps the first error for Flush.
	}
	for _, t := range r.Tables {
		fmt.Fprintf(tw, "%s\n", cmp.Or(t.Table, t.Key)) //nolint:errcheck // As above.
		line("mode", t.Mode)
		if t.NamesFrom != "" {
			line("key", t.Key+" (names from the "+t.NamesFrom+")")
		}
		if t.Holder == nil {
			line("holder", "nobody")
		} else {
			line("holder", t.Holder.text())
		}
		for _, p := range t.Waiters {
			line("waiting", p.text())
		}
		for _, n := range t.Notes {
			line("note", n)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write status: %w", err)
	}

	return nil
}

// text puts a party into one line.
func (p partyStatus) text() string {
	since := "for"
	name := p.Name
	if name == "" {
		name = "unknown"
	}
	var who []string
	add := func(label, value string) {
		if value != "" {
			who = append(who, label+" "+value)
		}
	}
	add("role", p.Role)
	add("node", p.Node)
	add("ticket", p.Ticket)
	if p.PID != 0 {
		add("server process", fmt.Sprint(p.PID))
	}
	if len(who) > 0 {
		name += " (" + strings.Join(who, ", ") + ")"
	}
	if p.For > 0 {
		if p.AtLeast {
			since += " at least"
		}
		name += ", " + since + " " + time.Duration(p.For).Round(100*time.Millisecond).String()
	}
	if p.Detail != "" {
		name += ", " + p.Detail
	}

	return name
}
