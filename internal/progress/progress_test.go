package progress

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLinesComeAtTheirDistance(t *testing.T) {
	var buf bytes.Buffer
	s := New(Options{Log: zerolog.New(&buf), Every: time.Nanosecond})
	task := s.Start("rewrite", 100)
	task.Set(40)
	task.Done()
	s.Close()

	var line map[string]any
	require.NoError(t, json.Unmarshal(buf.Bytes(), &line), "one line of JSON: %s", buf.String())
	require.Equal(t, "progress", line["message"])
	require.Equal(t, "rewrite", line["task"])
	require.Equal(t, "40 B", line["done"])
	require.Equal(t, "100 B", line["total"])
}

func TestQuietShowsNothing(t *testing.T) {
	var log, screen bytes.Buffer
	s := New(Options{Log: zerolog.New(&log), Terminal: &screen, Every: time.Nanosecond, Quiet: true})
	task := s.Start("rewrite", 100)
	task.Set(40)
	task.Done()
	s.Close()
	require.Empty(t, log.String())
	require.Empty(t, screen.String())
}

func TestConcurrentUseNeverGoesBack(t *testing.T) {
	s := New(Options{Terminal: &bytes.Buffer{}})
	defer s.Close()
	task := s.Start("rewrite", 1000)
	var wg sync.WaitGroup
	for i := range int64(100) {
		wg.Go(func() { task.Set(i * 10) })
	}
	wg.Wait()
	require.EqualValues(t, 990, task.done)
	task.Done()
}
