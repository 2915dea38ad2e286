package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
)

// contents are of every kind of block: compressed, a run, stored; and of several.
func contents() map[string][]byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 300_000)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}

	return map[string][]byte{
		"text": bytes.Repeat([]byte("one text and another "), 400), "run": make([]byte, 20_000), "random": random, "short": bytes.Repeat([]byte("abc"), 90), "empty": {},
	}
}

func TestFramesAreWholeAndDecodeOneAfterTheOther(t *testing.T) {
	p := New(format.Zstd, 1)
	var joined, plain []byte
	for name, content := range contents() {
		for _, sum := range []bool{false, true} {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(sum), zstd.WithZeroFrames(true))
			require.NoError(t, err)
			body := e.EncodeAll(content, nil)
			assert.True(t, Whole(body, len(content)), name)
			assert.False(t, Whole(body, len(content)+1), "%s: another size", name)
			for n := range 12 {
				if n > 0 && len(body) > n {
					assert.False(t, Whole(body[:len(body)-n], len(content)), "%s: cut by %d", name, n)
				}
			}
			assert.False(t, Whole(append(bytes.Clone(body), 0), len(content)), "%s: a byte too many", name)
			joined, plain = append(joined, body...), append(plain, content...)
		}
	}
	assert.True(t, Whole(joined, len(plain)))
	out, err := p.Decode(format.Zstd, nil, joined, len(plain))
	require.NoError(t, err)
	assert.Equal(t, plain, out)
}

func TestFramesThatDoNotTellTheirSizeAreNotWhole(t *testing.T) {
	var streamed bytes.Buffer
	w, err := zstd.NewWriter(&streamed)
	require.NoError(t, err)
	for range 3 { // a second block makes the writer begin before it knows the size
		_, err = w.Write(contents()["random"])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	assert.False(t, Whole(streamed.Bytes(), 900_000))

	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}
	assert.False(t, Whole(skippable, 0))
	assert.False(t, Whole([]byte("no frame at all"), 15))
	dictionary := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 1, 0x09, 0, 0, 'a'}
	assert.False(t, Whole(dictionary, 1), "a decoder needs the dictionary of that name")
	dictionary[4] = 0x20
	assert.True(t, Whole(append(dictionary[:5:5], dictionary[6:]...), 1))
	assert.True(t, Whole(nil, 0))
}
