package maintenance

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

const tenDays = 240 * time.Hour

// make creates a table in the world's catalog, with properties in pairs.
func (w *world) make(ident table.Identifier, opts ...icebergcatalog.CreateTableOpt) *table.Table {
	w.t.Helper()
	direct := w.open(nil)
	tabletest.Create(direct.Context(context.Background()), w.t, direct.Client(), ident, tabletest.Schema(), opts...)
	tbl, err := direct.LoadTable(context.Background(), ident)
	require.NoError(w.t, err)

	return tbl
}

func withProps(kv ...string) icebergcatalog.CreateTableOpt {
	p := iceberg.Properties{}
	for i := 0; i+1 < len(kv); i += 2 {
		p[kv[i]] = kv[i+1]
	}

	return icebergcatalog.WithProperties(p)
}

// plant writes a file below the folder, as old as age, and returns its path.
func (w *world) plant(folder, relative string, age time.Duration) string {
	w.t.Helper()
	p := strings.TrimPrefix(folder, "file://") + "/" + relative
	require.NoError(w.t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(w.t, os.WriteFile(p, []byte("stray"), 0o600))
	w.age(p, age)

	return p
}

func (w *world) age(p string, age time.Duration) {
	w.t.Helper()
	at := time.Now().Add(-age)
	require.NoError(w.t, os.Chtimes(p, at, at))
}

// everything lists all files of the world but the catalog's database.
func (w *world) everything() []string {
	w.t.Helper()
	var out []string
	require.NoError(w.t, filepath.WalkDir(w.dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(filepath.Base(p), "catalog.db") {
			out = append(out, p)
		}

		return err
	}))

	return out
}

// old makes every file of the world ten days old, so that only references
// keep the live ones.
func (w *world) old() {
	for _, p := range w.everything() {
		w.age(p, tenDays)
	}
}

func (w *world) orphans(o OrphanOptions) (StepReport, error) {
	w.t.Helper()
	if o.OlderThan == 0 && !o.RiskInFlight {
		o.OlderThan = 72 * time.Hour
	}
	look, err := w.cat.LoadTable(context.Background(), w.ident)
	require.NoError(w.t, err)

	return w.m.Orphans(context.Background(), look, o)
}

// gone holds the world to have lost exactly the given files.
func (w *world) gone(before []string, want ...string) {
	w.t.Helper()
	now := w.everything()
	var lost []string
	for _, p := range before {
		if !slices.Contains(now, p) {
			lost = append(lost, p)
		}
	}
	require.ElementsMatch(w.t, want, lost)
	require.False(w.t, w.claim.held, "the claim is free")
}
