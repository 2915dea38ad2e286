package hybrid

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	for width := uint(0); width <= MaxWidth; width++ {
		for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 1000, 5000} {
			values := make([]uint32, n)
			for i := range values {
				switch {
				case i > 0 && rnd.IntN(3) > 0 && i%100 < 60:
					values[i] = values[i-1]
				case width > 0:
					values[i] = rnd.Uint32() >> (32 - width)
				}
			}
			raw := Encode(nil, values, width)
			got, err := Decode(nil, raw, width, n)
			require.NoError(t, err)
			assert.Equal(t, values, append([]uint32{}, got...), "width %d, %d values", width, n)
			want, zeros := uint32(0), 0
			for _, v := range values {
				if v == want {
					zeros++
				}
			}
			equal, first, err := Count(raw, width, n, want)
			require.NoError(t, err)
			assert.Equal(t, zeros, equal, "width %d, %d values", width, n)
			if n > 0 {
				assert.Equal(t, values[0], first)
				_, err = Decode(nil, raw, width, n+100000)
				if width > 0 {
					require.ErrorIs(t, err, ErrCorrupt)
				}
			}
		}
	}
}

func TestKnownBytes(t *testing.T) {
	got, err := Decode(nil, []byte{0x03, 0x88, 0xc6, 0xfa}, 3, 8) // the example of the specification: 0 to 7
	require.NoError(t, err)
	assert.Equal(t, []uint32{0, 1, 2, 3, 4, 5, 6, 7}, got)
	assert.Equal(t, []byte{0x03, 0x88, 0xc6, 0xfa}, Encode(nil, got, 3))
	got, err = Decode(nil, []byte{0x14, 0x05}, 3, 10)
	require.NoError(t, err)
	assert.Equal(t, []uint32{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, got)
}

func TestDamagedStreamsAreErrors(t *testing.T) {
	for name, raw := range map[string][]byte{
		"empty":                 nil,
		"endless number":        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"run of nothing":        {0x00, 0x01},
		"packed run, nothing":   {0x01},
		"run without value":     {0x10},
		"value wider than bits": {0x10, 0xff},
		"packed run cut":        {0x03, 0x88},
	} {
		_, err := Decode(nil, raw, 3, 8)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
	_, err := Decode(nil, nil, 33, 1)
	require.ErrorIs(t, err, ErrCorrupt)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x03, 0x88, 0xc6, 0xfa}, uint8(3), uint16(8))
	f.Add([]byte{0x14, 0x05}, uint8(3), uint16(10))
	f.Add([]byte{0xff, 0xff, 0xff, 0x0f, 0x05}, uint8(31), uint16(65535))
	f.Fuzz(func(t *testing.T, raw []byte, width uint8, n uint16) {
		got, err := Decode(nil, raw, uint(width), int(n))
		equal, first, countErr := Count(raw, uint(width), int(n), 1)
		if (err == nil) != (countErr == nil) && width <= MaxWidth {
			t.Fatalf("decoding says %v, counting says %v", err, countErr)
		}
		if err != nil {
			return
		}
		if len(got) != int(n) {
			t.Fatalf("%d values, not %d", len(got), n)
		}
		ones := 0
		for _, v := range got {
			if v == 1 {
				ones++
			}
		}
		if ones != equal || (n > 0 && width > 0 && got[0] != first) {
			t.Fatalf("counted %d, first %d; there are %d, first %d", equal, first, ones, got[0])
		}
		again, err := Decode(nil, Encode(nil, got, uint(width)), uint(width), int(n))
		if err != nil || len(again) != len(got) {
			t.Fatalf("encoded again: %v", err)
		}
		for i := range got {
			if again[i] != got[i] {
				t.Fatalf("value %d became %d", got[i], again[i])
			}
		}
	})
}

func TestConstantKnowsALongEnoughRunOfTheValue(t *testing.T) {
	run := AppendRun(nil, 3, 2, 100)
	assert.True(t, Constant(run, 2, 100, 3))
	assert.True(t, Constant(run, 2, 99, 3), "a writer may count the padding in")
	assert.False(t, Constant(run, 2, 101, 3), "the run ends early")
	assert.False(t, Constant(run, 2, 100, 2), "of another value")
	assert.False(t, Constant(run[:1], 2, 100, 3), "without its value")
	assert.False(t, Constant(Encode(nil, []uint32{3, 1, 3}, 2), 2, 3, 3), "packed")
	assert.False(t, Constant(nil, 2, 1, 3))
}

func TestPaddingIsZeroWhateverWasInTheMemory(t *testing.T) {
	for width := uint(1); width <= MaxWidth; width++ {
		for n := 1; n < 8; n++ {
			dirty := make([]byte, 256)
			for i := range dirty {
				dirty[i] = 0xff
			}
			values := make([]uint32, n)
			for i := range values {
				values[i] = uint32(i % 2)
			}
			assert.Equal(t, Encode(nil, values, width), Encode(dirty[:0], values, width), "width %d, %d values", width, n)
			all, err := Decode(nil, Encode(dirty[:0], values, width), width, 8)
			require.NoError(t, err)
			assert.Equal(t, make([]uint32, 8-n), all[n:], "width %d, %d values", width, n)
		}
	}
}
