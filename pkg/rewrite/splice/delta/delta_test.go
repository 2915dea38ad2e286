package delta

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// series are integers of every kind that matters to the encoding.
func series(rnd *rand.Rand, n int, size Bits) map[string][]int64 {
	out := make(map[string][]int64)
	for name, next := range map[string]func(i int) int64{
		"equal":    func(int) int64 { return -7 },
		"rising":   func(i int) int64 { return int64(i) * 3 },
		"few bits": func(int) int64 { return rnd.Int64N(100) - 50 },
		"any":      func(int) int64 { return size.wrap(int64(rnd.Uint64())) },
		"60 bits":  func(int) int64 { return size.wrap(int64(rnd.Uint64() >> 4)) },
		"extremes": func(int) int64 {
			return []int64{size.wrap(math.MinInt32), math.MaxInt32, 0, -1, int64(math.MinInt64) >> (64 - size), math.MaxInt64 >> (64 - size)}[rnd.IntN(6)]
		},
		"one far off": func(i int) int64 {
			if i%50 == 49 {
				return math.MaxInt32
			}

			return int64(i)
		},
	} {
		values := make([]int64, n)
		for i := range values {
			values[i] = next(i)
		}
		out[name] = values
	}

	return out
}

func TestIntegersComeBackAndAnotherLibraryReadsThem(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, size := range []Bits{Int32, Int64} {
		for _, n := range []int{0, 1, 2, 31, 32, 33, 34, 127, 128, 129, 130, 161, 1000} {
			for name, values := range series(rnd, n, size) {
				raw := Encode([]byte("before"), values, size)[len("before"):]
				got, rest, err := Decode([]int64{1}, append(raw[:len(raw):len(raw)], "after"...), n, size)
				require.NoError(t, err)
				assert.Equal(t, "after", string(rest))
				assert.Equal(t, append([]int64{1}, values...), got, "%s: %d values of %d bits", name, n, size)
				if n > 0 {
					assert.Equal(t, values, readByLibrary(t, raw, n, size), "%s: %d values of %d bits", name, n, size)
				}
				got, rest, err = Decode(nil, writtenByLibrary(t, values, size), n, size)
				require.NoError(t, err)
				assert.Empty(t, rest)
				assert.Equal(t, values, append([]int64{}, got...), "%s: %d values of %d bits", name, n, size)
				for _, other := range []int{n - 1, n + 1, -1} {
					_, _, err = Decode(nil, raw, other, size)
					require.ErrorIs(t, err, ErrCorrupt)
				}
			}
		}
	}
}

func readByLibrary(t *testing.T, raw []byte, n int, size Bits) []int64 {
	t.Helper()
	if size == Int64 {
		got, err := parquet.DeltaBinaryPacked.DecodeInt64(make([]int64, n), raw)
		require.NoError(t, err)

		return got
	}
	got, err := parquet.DeltaBinaryPacked.DecodeInt32(make([]int32, n), raw)
	require.NoError(t, err)
	out := make([]int64, len(got))
	for i, v := range got {
		out[i] = int64(v)
	}

	return out
}

func writtenByLibrary(t *testing.T, values []int64, size Bits) []byte {
	t.Helper()
	if size == Int64 {
		raw, err := parquet.DeltaBinaryPacked.EncodeInt64(nil, values)
		require.NoError(t, err)

		return raw
	}
	narrow := make([]int32, len(values))
	for i, v := range values {
		narrow[i] = int32(v)
	}
	raw, err := parquet.DeltaBinaryPacked.EncodeInt32(nil, narrow)
	require.NoError(t, err)

	return raw
}

// stream is a header by hand, and what follows it.
func stream(block, minis, total uint64, first int64, rest ...byte) []byte {
	var out []byte
	for _, v := range []uint64{block, minis, total} {
		out = binary.AppendUvarint(out, v)
	}

	return append(binary.AppendVarint(out, first), rest...)
}

func TestKnownBytes(t *testing.T) {
	// The second example of the specification: 7, 5, 3, 1, 2, 3, 4, 5.
	raw := stream(128, 4, 8, 7, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0)
	want := []int64{7, 5, 3, 1, 2, 3, 4, 5}
	got, rest, err := Decode(nil, raw, 8, Int64)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Equal(t, want, got)
	assert.Equal(t, raw, Encode(nil, want, Int64))
}

func TestWhatWritersMayDo(t *testing.T) {
	for name, raw := range map[string][]byte{
		"padding cut off":               stream(128, 4, 3, 5, 0, 8, 0, 0, 0, 1, 0),
		"widths of parts without value": append(stream(128, 4, 3, 5, 0, 8, 200, 201, 255, 1), make([]byte, 31)...),
		"another size of block":         append(stream(2048, 8, 3, 5, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1), make([]byte, 255)...),
	} {
		got, rest, err := Decode(nil, raw, 3, Int32)
		require.NoError(t, err, name)
		assert.Empty(t, rest, name)
		assert.Equal(t, []int64{5, 6, 6}, got, name)
	}
}

func TestDifferencesOfShortIntegersMayBeLonger(t *testing.T) {
	values := []int64{math.MaxInt32, math.MinInt32, math.MaxInt32, -1, math.MinInt32, 0}
	raw := stream(128, 4, uint64(len(values)), values[0])
	raw = appendBlock(raw, []int64{math.MinInt32 - math.MaxInt32, math.MaxInt32 - math.MinInt32, -1 - math.MaxInt32, math.MinInt32 + 1, -math.MinInt32})
	got, rest, err := Decode(nil, raw, len(values), Int32)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Equal(t, values, got)
	assert.Equal(t, values, readByLibrary(t, Encode(nil, got, Int32), len(values), Int32), "written with 32 bits again")
}

func TestDamagedIntegersAreErrors(t *testing.T) {
	for name, raw := range map[string][]byte{
		"empty":                  nil,
		"header cut":             {0x80, 0x01, 0x04},
		"endless number":         {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"no first value":         stream(128, 4, 3, 0)[:4],
		"block of nothing":       stream(0, 4, 3, 5, 0, 0, 0, 0, 0),
		"no parts":               stream(128, 0, 3, 5, 0),
		"uneven parts":           stream(97, 3, 3, 5, 0, 0, 0, 0),
		"parts too small":        stream(128, 16, 3, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"huge block":             stream(1<<40, 4, 3, 5, 0, 0, 0, 0, 0),
		"more values":            stream(128, 4, 1<<60, 5, 0, 0, 0, 0, 0),
		"fewer values":           stream(128, 4, 2, 5, 0, 0, 0, 0, 0),
		"first value too large":  stream(128, 4, 3, math.MaxInt32+1, 0, 0, 0, 0, 0),
		"no block":               stream(128, 4, 3, 5),
		"widths cut":             stream(128, 4, 3, 5, 0, 0, 0),
		"width above any size":   append(stream(128, 4, 3, 5, 0, 65, 0, 0, 0), make([]byte, 400)...),
		"values cut":             stream(128, 4, 3, 5, 0, 8, 0, 0, 0, 1),
		"smallest delta endless": stream(128, 4, 3, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		got, _, err := Decode([]int64{9}, raw, 3, Int32)
		require.ErrorIs(t, err, ErrCorrupt, name)
		assert.Equal(t, []int64{9}, got, name)
	}
	_, _, err := Decode(nil, stream(128, 4, math.MaxUint64, 5, 0, 0, 0, 0, 0), -1, Int64)
	require.ErrorIs(t, err, ErrCorrupt)
}

func FuzzDecode(f *testing.F) {
	f.Add(stream(128, 4, 8, 7, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0), uint16(8), true)
	f.Add(Encode(nil, []int64{math.MaxInt64, math.MinInt64, 0, 5}, Int64), uint16(4), true)
	f.Add(Encode(nil, []int64{math.MaxInt32, math.MinInt32, 0, 5}, Int32), uint16(4), false)
	f.Add(stream(2048, 8, 3000, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8), uint16(3000), false)
	f.Add(stream(128, 4, 0, 0), uint16(0), false)
	f.Fuzz(func(t *testing.T, raw []byte, n uint16, wide bool) {
		size := Int32
		if wide {
			size = Int64
		}
		got, rest, err := Decode(nil, raw, int(n), size)
		if err != nil {
			return
		}
		if len(got) != int(n) || len(rest) > len(raw) {
			t.Fatalf("%d values, not %d", len(got), n)
		}
		for _, v := range got {
			if size.wrap(v) != v {
				t.Fatalf("%d in %d bits", v, size)
			}
		}
		again, rest, err := Decode(nil, Encode(nil, got, size), int(n), size)
		if err != nil || len(rest) > 0 {
			t.Fatalf("encoded again: %v, %d bytes are left", err, len(rest))
		}
		for i := range got {
			if again[i] != got[i] {
				t.Fatalf("value %d became %d", got[i], again[i])
			}
		}
	})
}
