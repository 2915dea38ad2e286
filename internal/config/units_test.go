package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "1": 1, "128MiB": 128 << 20, "512MB": 512e6, "512 mb": 512e6, "1kB": 1000, "1KiB": 1024, "1.5GiB": 3 << 29,
		"0.5TB": 5e11, " 7b ": 7, "2TiB": 2 << 40, "9223372036854775807": 9223372036854775807,
	} {
		got, err := ParseSize(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
	for in, want := range map[string]string{
		"":                    "is not a size",
		"MiB":                 "is not a size",
		"-1":                  "is not a size",
		"1.2.3MB":             "is not a number",
		"128M":                "write MB (powers of 1000) or MiB",
		"1k":                  "write KB",
		"1PB":                 "unknown unit",
		"1.5":                 "not a whole number of bytes",
		"9223372036854775808": "too large",
		"8589934592GiB":       "too large",
		"1e3":                 "unknown unit",
	} {
		_, err := ParseSize(in)
		require.ErrorContains(t, err, want, in)
	}
	_, err := ParseSize(strings.Repeat("9", 10000) + "GiB")
	require.ErrorContains(t, err, "is not a size")
}

func TestSizeString(t *testing.T) {
	for want, in := range map[string]Size{"0": 0, "1023": 1023, "1KiB": 1024, "1kB": 1000, "128MiB": 128 << 20, "512MB": 512e6, "-1KiB": -1024} {
		assert.Equal(t, want, in.String())
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "7d": 7 * day, "168h": 7 * day, "1d12h": 36 * time.Hour, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond,
		"1d0.5h": 24*time.Hour + 30*time.Minute, "36500d": 36500 * day, "106751d": 106751 * day,
	} {
		got, err := ParseDuration(in)
		require.NoError(t, err, in)
		assert.Equal(t, Duration(want), got, in)
	}
	for in, want := range map[string]string{
		"": "is not a duration", "7": "needs a unit", "1.5": "needs a unit", "-1h": "is not a duration", "1d-1h": "is not a duration", "1.5d": "is not a duration",
		"12h1d": "is not a duration", "1w": "is not a duration", "106752d": "too long", "106751d24h": "too long", "d": "is not a duration", "1d1": "is not a duration",
	} {
		_, err := ParseDuration(in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestDurationString(t *testing.T) {
	for want, in := range map[string]time.Duration{"0s": 0, "7d": 7 * day, "1d12h": 36 * time.Hour, "10m": 10 * time.Minute, "1.5s": 1500 * time.Millisecond,
		"1d1h1m1s": 25*time.Hour + 61*time.Second} {
		assert.Equal(t, want, Duration(in).String())
	}
}

func TestUnitsReadYAMLAndWriteIt(t *testing.T) {
	var v struct {
		S Size
		D Duration
	}
	require.NoError(t, yaml.Unmarshal([]byte("s: 128MiB\nd: 7d\n"), &v))
	assert.Equal(t, Size(128<<20), v.S)
	assert.Equal(t, Duration(7*day), v.D)
	out, err := yaml.Marshal(v)
	require.NoError(t, err)
	assert.Equal(t, "s: 128MiB\nd: 7d\n", string(out))
	require.Error(t, yaml.Unmarshal([]byte("s: much\n"), &v))
	require.NoError(t, v.S.Set("1KiB"))
	require.NoError(t, v.D.Set("1s"))
	assert.Equal(t, int64(1024), v.S.Bytes())
	assert.Equal(t, time.Second, v.D.Std())
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"128MiB", "1.5GB", "0", "9223372036854775807", "-1", "1e9", "0.000001MB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseSize(text)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, v, Size(0))
		again, err := ParseSize(v.String())
		require.NoError(t, err)
		require.Equal(t, v, again)
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"7d", "1d12h", "0", "106751d23h47m16.854775807s", "1h1h", "-1d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseDuration(text)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, v, Duration(0))
		again, err := ParseDuration(v.String())
		require.NoError(t, err)
		require.Equal(t, v, again)
	})
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{minimal, policies, deployment, "a: &a [*a]", "? {a: b}\n: c", "tables: [{match: \"[\"}]", "catalog: {properties: {a: [b]}}", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Load(source(text))
		require.NotNil(t, c, "what could be read is returned beside the violations")
		_ = c.Entries()
		if err == nil {
			require.NoError(t, c.Validate())
			_ = c.PolicyFor("a.b", map[string]string{"write.target-file-size-bytes": text})
		}
	})
}
