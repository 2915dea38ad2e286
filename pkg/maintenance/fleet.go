package maintenance

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"compactor/internal/tablename"
)

// statusOrder is the order in which statuses say something about a table, the
// worst first, as exit codes over several tables do.
func statusOrder() []Status {
	return []Status{
		StatusHalt, StatusAmbiguous, StatusConflict, StatusLost, StatusStopped, StatusHeld, StatusFailed,
		StatusRefused, StatusPartial, StatusLeft, StatusPlanned, StatusDone, StatusNothing,
	}
}

// Statuses lists every outcome of a step or a table, the worst first.
func Statuses() []Status { return statusOrder() }

// firstSignalCode is where the codes of processes that a signal ended begin.
const firstSignalCode = 128

// Close ends the report of a table: the code that a run over this table alone
// would end with, and the worst status of its steps.
func (t *TableReport) Close(exitCode int) {
	t.ExitCode = exitCode
	t.Status = StatusNothing
	has := map[Status]bool{}
	for _, s := range t.Steps {
		has[s.Status] = true
	}
	switch {
	case t.Error == "":
	case exitCode > firstSignalCode:
		has[StatusStopped] = true
	default:
		has[StatusFailed] = true
	}
	if t.Reason != "" {
		has[StatusLeft] = true
	}
	for _, s := range statusOrder() {
		if has[s] {
			t.Status = s

			return
		}
	}
}

// why says what a list of tables says of this one.
func (t *TableReport) why() string {
	for _, s := range t.Steps {
		if s.Status == t.Status {
			return s.Step + ": " + s.Reason
		}
	}

	return cmp.Or(t.Error, t.Reason)
}

// writeFleet ends the text of a run over several tables: how many came to what,
// and the ones that want a look, the worst first.
func writeFleet(w io.Writer, tables []TableReport) error {
	counts := map[Status]int{}
	var look []TableReport
	for _, t := range tables {
		counts[t.Status]++
		if t.ExitCode != 0 || t.Status == StatusLeft {
			look = append(look, t)
		}
	}
	order := statusOrder()
	var parts []string
	for _, s := range slices.Backward(order) {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	slices.SortStableFunc(look, func(a, b TableReport) int {
		return cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status))
	})
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "\n%d tables: %s\n", len(tables), strings.Join(parts, ", ")) //nolint:errcheck // tabwriter keeps the first error for Flush.
	for _, t := range look {
		fmt.Fprintf(tw, "  %d\t%s\t%s\t%s\n", t.ExitCode, t.Table, t.Status, tablename.OneLine(t.why())) //nolint:errcheck // As above.
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write list of tables: %w", err)
	}

	return nil
}
