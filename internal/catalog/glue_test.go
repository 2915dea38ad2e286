package catalog_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/store"
)

// fakeGlue answers the three calls that a commit needs. It is no Glue: it shows
// which requests are sent and how often, and that answers are classed.
type fakeGlue struct {
	metadata string
	answer   func(w http.ResponseWriter) // of UpdateTable

	mu     sync.Mutex
	calls  []string
	inputs []map[string]any
}

func (g *fakeGlue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, _ := io.ReadAll(r.Body)
	var input map[string]any
	_ = json.Unmarshal(body, &input)
	g.mu.Lock()
	g.calls, g.inputs = append(g.calls, call), append(g.inputs, input)
	g.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	switch call {
	case "GetTable":
		_ = json.NewEncoder(w).Encode(map[string]any{"Table": map[string]any{
			"Name": "t", "DatabaseName": "n", "VersionId": "7", "TableType": "EXTERNAL_TABLE",
			"Parameters": map[string]any{"table_type": "ICEBERG", "metadata_location": g.metadata},
		}})
	case "UpdateTable":
		g.answer(w)
	}
}

func (g *fakeGlue) count(call string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, c := range g.calls {
		if c == call {
			n++
		}
	}
	return n
}

func glueFault(status int, code string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"__type": code, "Message": "as the test wants it"})
	}
}

func TestGlueUpdateTableIsSentOnceAndClassed(t *testing.T) {
	hangUp := func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		want   catalog.Answer
	}{
		"yes":                     {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "{}") }, catalog.Committed},
		"concurrent modification": {glueFault(400, "ConcurrentModificationException"), catalog.Conflict},
		"access denied":           {glueFault(400, "AccessDeniedException"), catalog.Rejected},
		"no such table":           {glueFault(400, "EntityNotFoundException"), catalog.Rejected},
		"timed out over there":    {glueFault(400, "OperationTimeoutException"), catalog.Unknown},
		"throttled":               {glueFault(400, "ThrottlingException"), catalog.Unknown},
		"internal error":          {glueFault(500, "InternalServiceException"), catalog.Unknown},
		"closed connection":       {hangUp, catalog.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := open(t, sqlOptions(dir))
			made := load(t, source, createTable(t, source, "n", "t"))
			fake := &fakeGlue{metadata: made.MetadataLocation(), answer: test.answer}
			server := httptest.NewServer(fake)
			t.Cleanup(server.Close)
			c := open(t, catalog.Options{
				Catalog: catalog.Settings{Type: catalog.TypeGlue, URI: server.URL, Warehouse: filepath.Join(dir, "wh")},
				Storage: store.Options{S3: store.S3Options{Region: "eu-west-1", AccessKeyID: "k", SecretAccessKey: "s"}},
			})
			tbl := load(t, c, table.Identifier{"n", "t"})
			err := commit(t.Context(), t, c, tbl, "x")
			require.Equal(t, test.want, catalog.Classify(err), "%v", err)
			require.Equal(t, 1, fake.count("UpdateTable"), "%v", fake.calls)
			last := fake.inputs[len(fake.inputs)-1]
			require.Equal(t, "7", last["VersionId"], "the version that was read is asserted")

			require.Equal(t, catalog.Conflict, catalog.Classify(stale(t.Context(), c, table.Identifier{"n", "t"})))
			require.Equal(t, 1, fake.count("UpdateTable"), "a failed requirement is found before anything is sent")
		})
	}
}

func TestGlueReadsAreRetried(t *testing.T) {
	source := open(t, sqlOptions(t.TempDir()))
	made := load(t, source, createTable(t, source, "n", "t"))
	fake, failures := &fakeGlue{metadata: made.MetadataLocation()}, 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failures--; failures >= 0 {
			glueFault(500, "InternalServiceException")(w)
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := open(t, catalog.Options{
		Catalog: catalog.Settings{Type: catalog.TypeGlue, Properties: map[string]string{
			"glue.endpoint": server.URL, "glue.region": "eu-west-1", "glue.access-key-id": "k", "glue.secret-access-key": "s",
		}},
	})
	require.Equal(t, made.MetadataLocation(), load(t, c, table.Identifier{"n", "t"}).MetadataLocation())
	require.Equal(t, -1, failures)
}
