package maintenance

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"compactor/internal/catalog"
	"compactor/internal/store"
	"compactor/internal/tabletest"
	"compactor/pkg/rewrite"
)

func TestMain(m *testing.M) {
	store.Register()
	goleak.VerifyTestMain(m,
		// The pure Go SQLite driver and database/sql keep one of these per open
		// catalog until it is closed; closing is asynchronous.
		goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

// world is one table in an embedded catalog on a local folder, real but for
// the claim, which the test holds in its hand.
type world struct {
	t     *testing.T
	dir   string
	cat   *hookedCatalog
	claim *handClaim
	m     *Maintainer
	ident table.Identifier
}

type worldOptions struct {
	wrap        func(store.Backend) store.Backend
	beforeWrite func(arrow.RecordBatch) arrow.RecordBatch
}

func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: dir, claim: newHandClaim(), ident: table.Identifier{"ns", "events"}}
	w.cat = &hookedCatalog{Catalog: w.open(o.wrap)}
	w.m = &Maintainer{
		Catalog: w.cat, Claimer: w.claim,
		Rewriter: rewrite.New(rewrite.Options{Parallel: 1, BeforeWrite: o.beforeWrite}),
		Version:  Version{Name: "compactor", Version: "test"}, RunID: t.Name(), Log: zerolog.Nop(),
		Resolve: time.Second,
	}

	return w
}

func (w *world) open(wrap func(store.Backend) store.Backend) *catalog.Catalog {
	w.t.Helper()
	cat, err := catalog.Open(context.Background(), catalog.Options{
		Catalog: catalog.Settings{
			Type: catalog.TypeSQL, Name: "test", URI: "sqlite:" + filepath.Join(w.dir, "catalog.db"),
			Warehouse: "file://" + filepath.Join(w.dir, "warehouse"),
		},
		Storage: store.Options{Wrap: wrap},
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, cat.Close()) })

	return cat
}

// fragment makes the table with n files of three rows.
func (w *world) fragment(n int) *table.Table {
	w.t.Helper()
	direct := w.open(nil)
	tabletest.Create(direct.Context(context.Background()), w.t, direct.Client(), w.ident, tabletest.Schema())

	return tabletest.FragmentAtOnce(w.t, w.load(), n, 3)
}

// load reads the table past all hooks and faults.
func (w *world) load() *table.Table {
	w.t.Helper()
	tbl, err := w.open(nil).LoadTable(context.Background(), w.ident)
	require.NoError(w.t, err)

	return tbl
}

// planSmall compacts from two files on.
func planSmall() rewrite.PlanOptions { return rewrite.PlanOptions{MinInputFiles: 2} }

func (w *world) compact(o CompactOptions) (StepReport, error) {
	w.t.Helper()
	look, err := w.cat.LoadTable(context.Background(), w.ident)
	if err != nil {
		return StepReport{}, err
	}

	return w.m.Compact(context.Background(), look, o)
}

// files lists the files of the table's folder, metadata.json files excepted.
func (w *world) files() []string {
	w.t.Helper()
	var out []string
	require.NoError(w.t, filepath.WalkDir(filepath.Join(w.dir, "warehouse"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(p, ".metadata.json") {
			out = append(out, p)
		}

		return err
	}))
	slices.Sort(out)

	return out
}

// hookedCatalog counts commits and can stand in the way of one.
type hookedCatalog struct {
	*catalog.Catalog
	before      func()
	beforeLoad  func()
	loaded      func(*table.Table) *table.Table
	afterCommit func()
	answer      func(error) error
	commits     int
}

func (h *hookedCatalog) LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	if h.beforeLoad != nil {
		h.beforeLoad()
	}

	tbl, err := h.Catalog.LoadTable(ctx, ident)
	if err == nil && h.loaded != nil {
		tbl = h.loaded(tbl)
	}

	return tbl, err
}

func (h *hookedCatalog) CommitTable(ctx context.Context, ident table.Identifier, reqs []table.Requirement,
	updates []table.Update,
) (table.Metadata, string, error) {
	h.commits++
	if h.before != nil {
		h.before()
	}
	meta, loc, err := h.Catalog.CommitTable(ctx, ident, reqs, updates)
	if h.afterCommit != nil {
		h.afterCommit()
	}
	if h.answer != nil {
		err = h.answer(err)
	}

	return meta, loc, err
}

// handClaim is a claim that the test grants and takes away.
type handClaim struct {
	mu       sync.Mutex
	ctx      context.Context
	lose     context.CancelCauseFunc
	held     bool
	acquired int
	verify   error
}

func newHandClaim() *handClaim { return &handClaim{} }

func (c *handClaim) Acquire(ctx context.Context, _ table.Identifier) (Claim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return nil, ErrClaimHeld
	}
	c.ctx, c.lose = context.WithCancelCause(ctx)
	c.held = true
	c.acquired++

	return c, nil
}

func (c *handClaim) Context() context.Context { return c.ctx }

func (c *handClaim) Verify(context.Context) (time.Time, error) {
	if c.ctx.Err() != nil {
		return time.Time{}, ErrClaimLost
	}

	return time.Now().Add(10 * time.Second), c.verify
}

func (c *handClaim) Release(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	c.lose(errors.New("released"))

	return nil
}

func (c *handClaim) Waited() time.Duration { return 0 }
