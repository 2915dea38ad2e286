package rewrite

import (
	"fmt"

	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite/rowsort"
)

// The strategies.
const (
	// StrategyAuto sorts a table that has an order and packs the others.
	StrategyAuto = "auto"
	// StrategyBinpack keeps rows in the order of the input files.
	StrategyBinpack = "binpack"
	// StrategySort sorts, and refuses a table that has no order.
	StrategySort = "sort"
)

// sortKeyProperty names the key that ColdFront keeps a table sorted by.
const sortKeyProperty = "coldfront.sort-key"

// sorting is the order of a group's rows. The rows of its outputs are sorted as
// one: of two outputs, the second begins where the first ends.
type sorting struct {
	order rowsort.Order
	// id is the table's sort order with exactly these keys, 0 without one.
	id int
}

// sortingOf says by what the rows of a table are sorted, nil for not at all. A
// reason means that the table is to be refused.
//
// A table with coldfront.sort-key is sorted by that key, nulls last, or refused:
// its readers rely on it. An Iceberg sort order is a wish of the table, which
// StrategyBinpack overrides; the outputs are then marked as unsorted.
func sortingOf(tbl *table.Table, o PlanOptions) (*sorting, string) {
	schema, own := tbl.Schema(), tbl.SortOrder()
	asked, key := o.SortBy, tbl.Properties()[sortKeyProperty]
	var (
		order rowsort.Order
		err   error
	)
	switch {
	case key != "":
		return coldFrontSorting(tbl, o)
	case o.Strategy == StrategyBinpack:
		return nil, ""
	case asked != "":
		if order, err = rowsort.Parse(asked, schema, rowsort.NullsByDirection); err != nil {
			return nil, fmt.Sprintf("sort by %q: %v", asked, err)
		}
	case own.Len() > 0:
		if order, err = rowsort.FromTable(own, schema); err != nil {
			return nil, fmt.Sprintf("sort order %d: %v; strategy binpack rewrites the files unsorted", own.OrderID(), err)
		}
	case o.Strategy == StrategySort:
		return nil, "strategy sort: the table has no sort order, and no key to sort by was given"
	default:
		return nil, ""
	}

	return &sorting{order: order, id: findOrder(tbl, order)}, ""
}

func coldFrontSorting(tbl *table.Table, o PlanOptions) (*sorting, string) {
	key := tbl.Properties()[sortKeyProperty]
	if o.Strategy == StrategyBinpack {
		return nil, fmt.Sprintf("%s is %q: strategy binpack would lose that order", sortKeyProperty, key)
	}
	order, err := rowsort.Parse(key, tbl.Schema(), rowsort.NullsLast)
	if err != nil {
		return nil, fmt.Sprintf("%s is %q: %v", sortKeyProperty, key, err)
	}
	if o.SortBy != "" {
		other, err := rowsort.Parse(o.SortBy, tbl.Schema(), rowsort.NullsByDirection)
		if err != nil || !other.Equal(order) {
			return nil, fmt.Sprintf("%s is %q, which is %s: sorting by %q would lose that order", sortKeyProperty, key, order, o.SortBy)
		}
	}

	return &sorting{order: order, id: findOrder(tbl, order)}, ""
}

// findOrder finds the table's sort order that has exactly the given keys.
func findOrder(tbl *table.Table, order rowsort.Order) int {
	for _, known := range append([]table.SortOrder{tbl.SortOrder()}, tbl.Metadata().SortOrders()...) {
		same, err := rowsort.FromTable(known, tbl.Schema())
		if err == nil && known.Len() > 0 && same.Equal(order) {
			return known.OrderID()
		}
	}

	return table.UnsortedSortOrderID
}

// text is the order for people, empty without one.
func (s *sorting) text() string {
	if s == nil {
		return ""
	}

	return s.order.String()
}

// orderID is the sort order that manifests name for the outputs.
func (s *sorting) orderID() int {
	if s == nil {
		return table.UnsortedSortOrderID
	}

	return s.id
}

func (s *sorting) equal(o *sorting) bool {
	if s == nil || o == nil {
		return s == o
	}

	return s.id == o.id && s.order.Equal(o.order)
}

// SortedBy is the order that the rows of the outputs have, as text; empty when
// they keep the order of the inputs.
func (p *Plan) SortedBy() string { return p.sorting.text() }

// SortedBy is the order that the rows of the outputs have, as text; empty when
// they keep the order of the inputs.
func (g Group) SortedBy() string { return g.sorting.text() }
