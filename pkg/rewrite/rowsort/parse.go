package rowsort

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
)

// Nulls says where nulls go when the text does not.
type Nulls int

const (
	// NullsByDirection puts them first in ascending, last in descending order.
	NullsByDirection Nulls = iota
	// NullsLast puts them last in both.
	NullsLast
)

// Parse reads an order: keys separated by commas, each a column or a transform
// of one, with an optional direction (asc, desc) and place of nulls (nulls first,
// nulls last).
//
//	region, ts desc nulls last, bucket(16, id), truncate(4, "odd name"), day(ts)
//
// Names are those of the schema, with dots inside structs, in double quotes or
// backticks where they are not made of letters, digits, dots and underscores. The
// error wraps ErrUnsupported and says which key was not understood.
func Parse(text string, schema *iceberg.Schema, nulls Nulls) (Order, error) {
	words, err := lex(text)
	if err != nil {
		return Order{}, err
	}
	p := &parser{words: words, schema: schema, nulls: nulls}
	var out Order
	for {
		key, err := p.key()
		if err != nil {
			return Order{}, err
		}
		out.Keys = append(out.Keys, key)
		if p.at >= len(p.words) {
			return out, nil
		}
		if err := p.symbol(","); err != nil {
			return Order{}, err
		}
	}
}

// word is a name, a number or one of the signs ( ) and comma.
type word struct {
	text   string
	quoted bool
}

func lex(text string) ([]word, error) {
	var words []word
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '(', ')', ',':
			words = append(words, word{text: string(c)})
			i++
		case '"', '`':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return nil, fmt.Errorf("%w: %q has a quote that is not closed", ErrUnsupported, text)
			}
			words = append(words, word{text: text[i+1 : i+1+end], quoted: true})
			i += end + 2
		default:
			end := i
			for end < len(text) && !strings.ContainsRune(" \t\n\r(),\"`", rune(text[end])) {
				end++
			}
			words = append(words, word{text: text[i:end]})
			i = end
		}
	}

	return words, nil
}

type parser struct {
	words  []word
	at     int
	schema *iceberg.Schema
	nulls  Nulls
}

// next is the next word without taking it; empty at the end.
func (p *parser) next() word {
	if p.at < len(p.words) {
		return p.words[p.at]
	}

	return word{}
}

// took takes the next word when it is the given one, in any case.
func (p *parser) took(text string) bool {
	w := p.next()
	if w.quoted || !strings.EqualFold(w.text, text) {
		return false
	}
	p.at++

	return true
}

func (p *parser) symbol(text string) error {
	if p.took(text) {
		return nil
	}

	return p.expected(strconv.Quote(text))
}

// expected is the error that something else stands where the parser is.
func (p *parser) expected(what string) error {
	if p.at >= len(p.words) {
		return fmt.Errorf("%w: expected %s at the end", ErrUnsupported, what)
	}

	return fmt.Errorf("%w: expected %s before %q", ErrUnsupported, what, p.next().text)
}

func (p *parser) name() (string, error) {
	w := p.next()
	if !w.quoted && (w.text == "" || strings.ContainsAny(w.text, "(),")) {
		return "", p.expected("a column")
	}
	p.at++

	return w.text, nil
}

func (p *parser) key() (Key, error) {
	first := p.next()
	name, err := p.name()
	if err != nil {
		return Key{}, err
	}
	var transform iceberg.Transform = iceberg.IdentityTransform{}
	if !first.quoted && p.took("(") {
		if transform, name, err = p.transform(first.text); err != nil {
			return Key{}, err
		}
	}
	field, found := p.schema.FindFieldByName(name)
	if !found {
		return Key{}, fmt.Errorf("%w: there is no column %q", ErrUnsupported, name)
	}
	key, err := newKey(p.schema, field.ID, transform)
	if err != nil {
		return Key{}, err
	}
	if key.Descending = p.took("desc"); !key.Descending {
		p.took("asc")
	}
	key.NullsFirst = !key.Descending && p.nulls == NullsByDirection
	if p.took("nulls") {
		if key.NullsFirst = p.took("first"); !key.NullsFirst && !p.took("last") {
			return Key{}, p.expected(`"first" or "last"`)
		}
	}

	return key, nil
}

// transform reads the arguments of a transform, up to the closing bracket.
func (p *parser) transform(name string) (iceberg.Transform, string, error) {
	argument, err := p.name()
	if err != nil {
		return nil, "", err
	}
	kind := strings.ToLower(name)
	switch kind {
	case "bucket", "truncate":
		width, err := strconv.Atoi(argument)
		if err != nil || width < 1 || width > 1<<30 {
			return nil, "", fmt.Errorf("%w: %s takes a number and a column, such as %[2]s(16, id); found %q", ErrUnsupported, kind, argument)
		}
		if err := p.symbol(","); err != nil {
			return nil, "", err
		}
		if argument, err = p.name(); err != nil {
			return nil, "", err
		}
		kind = fmt.Sprintf("%s[%d]", kind, width)
	case "years", "months", "days", "hours", "year", "month", "day", "hour", "identity":
		kind = strings.TrimSuffix(kind, "s")
	default:
		return nil, "", fmt.Errorf("%w: there is no transform %q", ErrUnsupported, name)
	}
	if err := p.symbol(")"); err != nil {
		return nil, "", err
	}
	transform, err := iceberg.ParseTransform(kind)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrUnsupported, err)
	}

	return transform, argument, nil
}

// quote writes a name so that it is read back as one.
func quote(name string) string {
	plain := strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
	if plain && name != "" {
		return name
	}
	if strings.Contains(name, `"`) {
		return "`" + name + "`"
	}

	return `"` + name + `"`
}
