package delta

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flat is a list of texts as the library has them.
func flat(texts []string) (all []byte, offsets []uint32) {
	offsets = append(offsets, 0)
	for _, s := range texts {
		all = append(all, s...)
		offsets = append(offsets, uint32(len(all)))
	}

	return all, offsets
}

func split(all []byte, offsets []uint32) (texts []string) {
	for i := 1; i < len(offsets); i++ {
		texts = append(texts, string(all[offsets[i-1]:offsets[i]]))
	}

	return texts
}

func pages() (out [][]string) {
	for page, n := range []int{1, 40, 300, 2} {
		var texts []string
		for i := range n {
			texts = append(texts, fmt.Sprintf("page %d of the table/%04d", page, i/3)[:20+i%5])
			if i%7 == 3 {
				texts = append(texts, "")
			}
		}
		out = append(out, texts)
	}

	return out
}

func TestStringsOfManyPagesAreOnePage(t *testing.T) {
	var all []string
	var lengths, prefixed Strings
	plain := int64(0)
	for _, texts := range pages() {
		b, offsets := flat(texts)
		raw, err := parquet.DeltaLengthByteArray.EncodeByteArray(nil, b, offsets)
		require.NoError(t, err)
		require.NoError(t, lengths.AppendLengths(raw, len(texts)))
		raw, err = parquet.DeltaByteArray.EncodeByteArray(nil, b, offsets)
		require.NoError(t, err)
		require.NoError(t, prefixed.AppendPrefixed(raw, len(texts), 0))
		all = append(all, texts...)
		plain += int64(len(b) + 4*len(texts))
	}
	for name, one := range map[string]*Strings{"lengths": &lengths, "prefixed": &prefixed} {
		assert.Equal(t, plain, one.Plain(), name)
	}
	b, offsets, err := parquet.DeltaLengthByteArray.DecodeByteArray(nil, lengths.EncodeLengths(nil), nil)
	require.NoError(t, err)
	assert.Equal(t, all, split(b, offsets))
	b, offsets, err = parquet.DeltaByteArray.DecodeByteArray(nil, prefixed.EncodePrefixed(nil), nil)
	require.NoError(t, err)
	assert.Equal(t, all, split(b, offsets))
	lengths.Reset()
	assert.Equal(t, Strings{lengths: []int64{}, bytes: []byte{}}, lengths)
}

func TestValuesOfAFixedLength(t *testing.T) {
	values := []byte("abcdabceabffxxxx")
	raw, err := parquet.DeltaByteArray.EncodeFixedLenByteArray(nil, values, 4)
	require.NoError(t, err)
	var s Strings
	require.NoError(t, s.AppendPrefixed(raw, 4, 4))
	require.NoError(t, s.AppendPrefixed(raw, 4, 4))
	got, err := parquet.DeltaByteArray.DecodeFixedLenByteArray(nil, s.EncodePrefixed(nil), 4)
	require.NoError(t, err)
	assert.Equal(t, string(bytes.Repeat(values, 2)), string(got))
	require.ErrorIs(t, s.AppendPrefixed(raw, 4, 5), ErrCorrupt)
}

func TestDamagedStringsAreErrors(t *testing.T) {
	join := func(text string, lists ...[]int64) (out []byte) {
		for _, list := range lists {
			out = Encode(out, list, Int32)
		}

		return append(out, text...)
	}
	for name, raw := range map[string][]byte{
		"no lengths":     nil,
		"negative":       join("abc", []int64{4, -1}),
		"too few bytes":  join("abc", []int64{2, 2}),
		"too many bytes": join("abcde", []int64{2, 2}),
		"overflow":       join("abc", []int64{math.MaxInt32, math.MaxInt32}),
		"a third value":  join("abc", []int64{1, 1, 1}),
	} {
		require.ErrorIs(t, new(Strings).AppendLengths(raw, 2), ErrCorrupt, name)
	}
	for name, raw := range map[string][]byte{
		"no prefixes":             nil,
		"no suffixes":             join("", []int64{0, 1}),
		"negative prefix":         join("abc", []int64{0, -1}, []int64{2, 1}),
		"prefix before the first": join("abc", []int64{1, 1}, []int64{2, 1}),
		"prefix too long":         join("abc", []int64{0, 3}, []int64{2, 1}),
		"negative suffix":         join("abc", []int64{0, 1}, []int64{4, -1}),
		"too few bytes":           join("abc", []int64{0, 1}, []int64{2, 2}),
		"too many bytes":          join("abcd", []int64{0, 1}, []int64{2, 1}),
		"fewer suffixes":          join("ab", []int64{0, 1}, []int64{2}),
	} {
		require.ErrorIs(t, new(Strings).AppendPrefixed(raw, 2, 0), ErrCorrupt, name)
	}
	// The last value of another page is none to share bytes with.
	var s Strings
	require.NoError(t, s.AppendPrefixed(join("abc", []int64{0, 2}, []int64{2, 1}), 2, 0))
	require.ErrorIs(t, s.AppendPrefixed(join("x", []int64{2, 0}, []int64{1, 0}), 2, 0), ErrCorrupt)
}

func FuzzStrings(f *testing.F) {
	for _, texts := range pages() {
		b, offsets := flat(texts)
		for _, e := range []interface {
			EncodeByteArray(dst, src []byte, offsets []uint32) ([]byte, error)
		}{&parquet.DeltaLengthByteArray, &parquet.DeltaByteArray} {
			raw, err := e.EncodeByteArray(nil, b, offsets)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw, uint16(len(texts)), uint8(0), e == &parquet.DeltaByteArray)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, n uint16, width uint8, prefixed bool) {
		take := func(s *Strings, raw []byte) error { return s.AppendLengths(raw, int(n)) }
		encode := (*Strings).EncodeLengths
		if prefixed {
			take = func(s *Strings, raw []byte) error { return s.AppendPrefixed(raw, int(n), int(width)) }
			encode = (*Strings).EncodePrefixed
		}
		var one, again Strings
		if take(&one, raw) != nil {
			return
		}
		if most := int64(n) * int64(len(raw)+4); one.Plain() < int64(4*int(n)) || one.Plain() > most {
			t.Fatalf("%d values of %d bytes out of %d", n, one.Plain(), len(raw))
		}
		made := encode(&one, nil)
		if err := take(&again, made); err != nil {
			t.Fatalf("encoded again: %v", err)
		}
		if !bytes.Equal(made, encode(&again, nil)) || one.Plain() != again.Plain() {
			t.Fatal("encoded again it is something else")
		}
	})
}
