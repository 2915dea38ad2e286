package claim

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// firstLook is how long a wait lasts before anybody looks at the holder: most
// waits are over by then and cost no second connection.
const firstLook = 200 * time.Millisecond

// lastLook bounds the look that names the holder when a timeout shorter than
// firstLook has passed.
const lastLook = 2 * time.Second

// watch looks at who holds the table, over a connection of its own, for as long
// as the claim's own connection is blocked.
type watch struct {
	wait   *pgWait
	cancel context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	view  view
	extra string
	first map[string]time.Time
}

// startWatch starts looking.
func startWatch(ctx context.Context, w *pgWait) *watch {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &watch{wait: w, cancel: cancel, ended: make(chan struct{}), first: make(map[string]time.Time)}
	go h.loop(ctx)
	return h
}

// stop ends the watch and returns when it has ended; no call of OnWait follows.
func (h *watch) stop() {
	h.cancel()
	<-h.ended
}

// note adds a remark to everything that is reported from now on.
func (h *watch) note(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extra = text
}

// last returns the newest view. If there was none yet it looks once.
func (h *watch) last(ctx context.Context) view {
	h.mu.Lock()
	v := h.view
	h.mu.Unlock()
	if v.queued {
		return v
	}
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	conn, err := h.wait.server.connect(ctx)
	if err != nil {
		return v
	}
	defer h.wait.server.close(ctx, conn)
	if found, err := h.wait.look(ctx, conn); err == nil {
		return h.aged(found)
	}
	return v
}

func (h *watch) loop(ctx context.Context) {
	defer close(h.ended)
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			h.wait.server.close(ctx, conn)
		}
	}()
	timer := time.NewTimer(min(firstLook, h.wait.server.cfg.Timing.Look))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		conn = h.lookOnce(ctx, conn)
		timer.Reset(h.wait.server.cfg.Timing.Look)
	}
}

// lookOnce looks, reports, and returns the connection to use next time, nil when
// it broke.
func (h *watch) lookOnce(ctx context.Context, conn *pgx.Conn) *pgx.Conn {
	bounded, cancel := context.WithTimeout(ctx, h.wait.server.cfg.Timing.Connect)
	defer cancel()
	var err error
	if conn == nil {
		if conn, err = h.wait.server.connect(bounded); err != nil {
			h.report(ctx, view{queued: true, detail: "holder cannot be read: " + err.Error()})
			return nil
		}
	}
	v, err := h.wait.look(bounded, conn)
	if err != nil {
		v = view{queued: true, detail: "holder cannot be read: " + err.Error()}
	}
	h.report(ctx, v)
	if conn.IsClosed() {
		return nil
	}
	return conn
}

// report remembers a view and tells the waiter, unless our own session is not in
// the queue yet or the watch is over.
func (h *watch) report(ctx context.Context, v view) {
	if !v.queued || ctx.Err() != nil {
		return
	}
	v = h.aged(v)
	h.mu.Lock()
	h.view = v
	if h.extra != "" {
		v.detail = strings.TrimPrefix(v.detail+"; "+h.extra, "; ")
	}
	h.mu.Unlock()
	if h.wait.o.OnWait != nil {
		h.wait.o.OnWait(Waiting{
			For: h.wait.server.cfg.Now().Sub(h.wait.started), Holder: v.holder, HeldFor: v.heldFor, Detail: v.detail,
		})
	}
}

// aged raises the holder's age to what this watch itself has seen of it.
func (h *watch) aged(v view) view {
	if v.holder == "" {
		return v
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.wait.server.cfg.Now()
	since, seen := h.first[v.holder]
	if !seen {
		h.first[v.holder] = now
		return v
	}
	v.heldFor = max(v.heldFor, now.Sub(since))
	return v
}

// lookSQL returns the query that finds who holds, and who waits for, the advisory
// lock whose 64-bit key the given expression computes from $1; $2 is our own
// server process.
func lookSQL(keyExpr string) string {
	return `WITH k AS (SELECT ` + keyExpr + ` AS h),
     locks AS (SELECT l.pid, l.granted FROM k JOIN pg_locks l
                  ON l.locktype = 'advisory' AND l.objsubid = 1
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                 AND l.classid = ((k.h >> 32) & 4294967295)::oid AND l.objid = (k.h & 4294967295)::oid)
SELECT coalesce(h.pid, 0)::bigint, coalesce(a.application_name, ''), coalesce(a.usename::text, ''),
       extract(epoch FROM clock_timestamp())::bigint,
       EXISTS (SELECT FROM locks WHERE pid = $2 AND NOT granted),
       (SELECT count(*) FROM locks WHERE NOT granted AND pid <> $2)
  FROM (VALUES (1)) AS one(n)
  LEFT JOIN (SELECT pid FROM locks WHERE granted LIMIT 1) AS h ON true
  LEFT JOIN pg_stat_activity a ON a.pid = h.pid`
}

// holderStamp is the time of the grant at the end of a holder's application_name.
var holderStamp = regexp.MustCompile(` \+(\d{10})$`)

// lockRow is one row of lookSQL.
type lockRow struct {
	pid     int64
	app     string
	user    string
	now     int64
	queued  bool
	waiters int64
}

// lookAt runs a query made by lookSQL.
func lookAt(ctx context.Context, conn *pgx.Conn, query, text string, pid int64) (lockRow, error) {
	var r lockRow
	err := conn.QueryRow(ctx, query, text, pid).Scan(&r.pid, &r.app, &r.user, &r.now, &r.queued, &r.waiters)
	return r, err //nolint:wrapcheck // the watch shows the text as it is.
}

// stated splits what a session calls itself from the time of the grant that it
// states, and returns the age of the grant, zero when it states none.
func (r lockRow) stated() (name string, since time.Duration) {
	m := holderStamp.FindStringSubmatch(r.app)
	if m == nil {
		return r.app, 0
	}
	name = strings.TrimSuffix(r.app, m[0])
	if at, err := strconv.ParseInt(m[1], 10, 64); err == nil && at <= r.now {
		since = time.Duration(r.now-at) * time.Second
	}
	return name, since
}

// view turns the row into words.
func (r lockRow) view() view {
	v := view{queued: r.queued}
	if r.waiters > 0 {
		v.detail = strconv.FormatInt(r.waiters, 10) + " other sessions wait too"
		if r.waiters == 1 {
			v.detail = "one other session waits too"
		}
	}
	if r.pid == 0 {
		return v
	}
	name, since := r.stated()
	v.heldFor = since
	var who []string
	if r.user != "" {
		who = append(who, "role "+r.user)
	}
	who = append(who, "server process "+strconv.FormatInt(r.pid, 10))
	v.holder = strings.TrimSpace(name + " (" + strings.Join(who, ", ") + ")")
	return v
}
