package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// paused is a program that stands in the middle of its rewrite: the upload of
// its data file does not get an answer until resume is called.
type paused struct {
	*process
	w       *world
	rows    []string
	objects []string
	resume  func()
}

// pauseInRewrite starts the program on a fragmented table and returns when it
// uploads its output. lands says whether that upload is let through in the end.
func (w *world) pauseInRewrite(lands bool) *paused {
	w.t.Helper()
	tbl := tabletest.FragmentAtOnce(w.t, w.create(), 20, 5)
	p := &paused{w: w, rows: tabletest.Rows(w.t, tbl), objects: w.objects()}
	uploading, gate := make(chan struct{}), make(chan struct{})
	then := testenv.DropWithoutForward()
	if lands {
		then = testenv.Forward()
	}
	w.s3.Handle(testenv.Rule{
		Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".parquet")
		},
		Before: func(*http.Request) { close(uploading) },
		Action: testenv.BlockUntil(gate, then),
		Times:  1,
	})
	open := false
	p.resume = func() {
		if !open {
			open = true
			close(gate)
		}
	}
	w.t.Cleanup(p.resume)
	p.process = w.start(w.compactArgs()...)
	select {
	case <-uploading:
	case <-p.done:
		w.t.Fatalf("the program ended before it uploaded: %d, %s", p.code, p.stderr)
	case <-time.After(time.Minute):
		w.t.Fatalf("no upload after a minute: %s", p.stderr)
	}

	return p
}

// nothingHappened checks that the table, its objects and its claim are as they
// were before the program started.
func (p *paused) nothingHappened() {
	w := p.w
	w.t.Helper()
	tbl := w.load()
	require.Len(w.t, tbl.Metadata().Snapshots(), 1, "no snapshot of the program")
	require.Equal(w.t, p.rows, tabletest.Rows(w.t, tbl))
	require.Equal(w.t, p.objects, w.objects(), "no file is left")
	require.Zero(w.t, w.commits())
}

func TestSIGTERMInTheMiddleOfARewrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.pauseInRewrite(false)
	require.False(t, w.claimFree())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, p.wait(30*time.Second), p.stderr)
	require.True(t, w.claimFree(), "the claim is free at once")
	p.resume()
	p.nothingHappened()
}

func TestSIGINTWhileWaitingForTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 20, 5)
	conn := w.db.Conn(t)
	_, err := conn.Exec(context.Background(), `SELECT pg_advisory_lock(hashtextextended('iceberg:' || $1, 0))`, w.key().String())
	require.NoError(t, err)
	p := w.start(w.compactArgs()...)
	w.waitQueued()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, p.wait(30*time.Second), p.stderr)
	_, err = conn.Exec(context.Background(), `SELECT pg_advisory_unlock_all()`)
	require.NoError(t, err)
	require.True(t, w.claimFree(), "nothing is left in the queue")
}

// The claim is lost in the middle of the work: never a commit, exit 11, the
// uncommitted files gone.
func TestCase_C20_claimLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *world, *testenv.TCPProxy){
		"backend terminated": func(t *testing.T, w *world, _ *testenv.TCPProxy) {
			w.db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		},
		"connection cut": func(_ *testing.T, _ *world, link *testenv.TCPProxy) { link.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			link := w.throughLink()
			p := w.pauseInRewrite(false)
			lose(t, w, link)
			require.Equal(t, 11, p.wait(time.Minute), p.stderr)
			require.True(t, w.claimFree())
			p.resume()
			p.nothingHappened()
		})
	}
}

// throughLink puts a proxy between the program and PostgreSQL.
func (w *world) throughLink() *testenv.TCPProxy {
	w.t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(w.db.Server.Port))
	link := testenv.NewTCPProxy(w.t, address)
	w.env["COMPACTOR_CLAIM_POSTGRES"] = strings.Replace(w.db.DSN, address, link.Addr, 1)
	require.NotEqual(w.t, w.db.DSN, w.env["COMPACTOR_CLAIM_POSTGRES"])

	return link
}

// A role whose settings would end a long claim: ours are set over them.
func TestCase_C20_roleWithShortTimeouts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dsn := w.db.Role(t, "shortlived")
	login, err := url.Parse(dsn)
	require.NoError(t, err)
	for setting, value := range map[string]string{
		"idle_session_timeout": "2s", "idle_in_transaction_session_timeout": "2s", "statement_timeout": "2s", "lock_timeout": "1s",
	} {
		w.db.Exec(t, fmt.Sprintf("ALTER ROLE %s SET %s = '%s'", login.User.Username(), setting, value))
	}
	w.env["COMPACTOR_CLAIM_POSTGRES"] = dsn
	p := w.pauseInRewrite(true)
	select {
	case <-p.done:
		t.Fatalf("the claim did not survive the role's timeouts: %d %s", p.code, p.stderr)
	case <-time.After(5 * time.Second):
	}
	p.resume()
	require.Equal(t, 0, p.wait(time.Minute), p.stderr)
	require.Equal(t, p.rows, tabletest.Rows(t, w.load()))
}

func TestCase_C20_processKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.pauseInRewrite(false)
	require.NoError(t, p.cmd.Process.Kill())
	require.Equal(t, -1, p.wait(10*time.Second))
	require.Eventually(t, w.claimFree, 40*time.Second, 100*time.Millisecond, "the table is free within the session lease")
	p.resume()
	p.nothingHappened()
	require.Equal(t, 0, w.compact().code, "the next run does the work")
	require.Equal(t, p.rows, tabletest.Rows(t, w.load()))
}

// A process that was stopped for a minute commits nothing when it goes on.
func TestCase_C20_processStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.pauseInRewrite(true)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	require.Eventually(t, w.claimFree, 40*time.Second, 200*time.Millisecond, "another claimant gets in within the session lease")
	<-time.After(time.Until(stopped.Add(time.Minute)))
	p.resume()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	require.Equal(t, 11, p.wait(time.Minute), p.stderr)
	p.nothingHappened()
}

// Whatever is wrong with the database is refused before the store or the
// catalog is touched.
func TestCase_C20_refusedBeforeAnyWork(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]func(*testing.T, *world) string{
		"standby": func(t *testing.T, _ *world) string {
			return testenv.NewPostgres(t, testenv.PostgresOptions{Major: 15}).Standby(t).DSN("postgres")
		},
		"wrong authority": func(t *testing.T, _ *world) string {
			server := testenv.NewPostgres(t, testenv.PostgresOptions{Major: 15, TLS: true})

			return strings.Replace(server.DSN("postgres"), url.QueryEscape(server.CACert), url.QueryEscape(testenv.OtherCA(t)), 1)
		},
		"pooler": func(t *testing.T, w *world) string { return testenv.PgBouncer(t, w.db, "transaction") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tabletest.FragmentAtOnce(t, w.create(), 6, 2)
			w.env["COMPACTOR_CLAIM_POSTGRES"] = dsn(t, w)
			r := w.compact()
			require.Equal(t, 2, r.code, r.stderr)
			require.Empty(t, w.s3.Requests(), "the store was not touched")
			require.Empty(t, w.catalog.Requests(), "the catalog was not touched")
		})
	}
}
