// Package layout says how the columns of a table lie in a Parquet file: which
// leaf column holds which field, and of which physical form it is. Fields are
// told by their ids (Iceberg specification, Column Projection); a file without any
// gets those of the table's name mapping first.
package layout

import (
	"errors"
	"fmt"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/refuse"
)

// ErrCorrupt means that a footer's schema is no tree.
var ErrCorrupt = errors.New("corrupt file schema")

// maxDepth bounds how deep columns may be nested.
const maxDepth = 64

// node is an element of the file's schema with its place in the tree.
type node struct {
	element  *format.SchemaElement
	children []*node
	column   int // of a leaf, in the order of row groups
	def, rep int // levels, the element's own included
}

func (n *node) leaf() bool { return n.element.Type != nil }

func (n *node) id() int {
	if n.element.FieldID == nil {
		return -1
	}

	return int(*n.element.FieldID)
}

func (n *node) repetition() format.Repetition {
	if n.element.Repetition == nil {
		return format.Required
	}

	return *n.element.Repetition
}

// child finds a child by its field id.
func (n *node) child(id int) *node {
	for _, c := range n.children {
		if c.id() == id {
			return c
		}
	}

	return nil
}

// identified refuses children that cannot be told by their ids: one without an
// id would be taken for a column that was dropped.
func (n *node) identified() error {
	seen := make(map[int]bool)
	for _, c := range n.children {
		if c.id() < 0 || seen[c.id()] {
			return &refuse.Error{Rule: RuleNoIDs, Detail: c.element.Name}
		}
		seen[c.id()] = true
	}

	return nil
}

// anyLeaf is a leaf column below the node.
func (n *node) anyLeaf() int {
	for !n.leaf() {
		n = n.children[0]
	}

	return n.column
}

// tree puts the list of elements back into a tree and numbers the leaves. Two
// elements of one id are refused wherever they are.
func tree(elements []format.SchemaElement) (*node, int, error) {
	b := treeBuilder{elements: elements, ids: make(map[int]bool)}
	if len(elements) == 0 {
		return nil, 0, fmt.Errorf("%w: no elements", ErrCorrupt)
	}
	root := &node{element: &elements[0], column: -1}
	b.pos = 1
	if err := b.fill(root, maxDepth); err != nil {
		return nil, 0, err
	}
	if b.pos != len(elements) {
		return nil, 0, fmt.Errorf("%w: %d elements too many", ErrCorrupt, len(elements)-b.pos)
	}

	return root, b.leaves, nil
}

type treeBuilder struct {
	elements    []format.SchemaElement
	pos, leaves int
	ids         map[int]bool
}

func (b *treeBuilder) fill(parent *node, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%w: nested too deep", ErrCorrupt)
	}
	for range parent.element.NumChildren {
		if b.pos >= len(b.elements) {
			return fmt.Errorf("%w: ends early", ErrCorrupt)
		}
		n := &node{element: &b.elements[b.pos], column: -1, def: parent.def, rep: parent.rep}
		b.pos++
		if id := n.id(); id >= 0 && b.ids[id] {
			return &refuse.Error{Rule: RuleTwice, Detail: n.element.Name}
		}
		b.ids[n.id()] = true
		switch n.repetition() {
		case format.Required:
		case format.Optional:
			n.def++
		case format.Repeated:
			n.def++
			n.rep++
		default:
			return fmt.Errorf("%w: repetition %d", ErrCorrupt, n.repetition())
		}
		parent.children = append(parent.children, n)
		if n.leaf() {
			n.column = b.leaves
			b.leaves++
			if n.element.NumChildren > 0 {
				return fmt.Errorf("%w: leaf with children", ErrCorrupt)
			}

			continue
		}
		if n.element.NumChildren <= 0 {
			return fmt.Errorf("%w: group without children", ErrCorrupt)
		}
		if err := b.fill(n, depth-1); err != nil {
			return err
		}
	}

	return nil
}
