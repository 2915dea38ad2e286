package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// nowhere is an address where nothing listens.
const nowhere = "127.0.0.1:1"

// doctor runs the command and returns its report, as JSON and as text.
func (w *world) doctor(args ...string) (checkupReport, result) {
	w.t.Helper()
	r := w.compactor(slices.Concat([]string{"doctor", "--config", w.config, "-o", "json", "--answer-within", "2m", "--max-skew", "1m"}, args)...)
	var rep checkupReport
	require.NoError(w.t, json.Unmarshal([]byte(r.stdout), &rep), "%s\n%s", r.stdout, r.stderr)
	validBy(w.t, doctorSchema, r.stdout)
	require.Equal(w.t, r.code, rep.ExitCode)
	require.Equal(w.t, r.code == 0, rep.Healthy)
	for _, c := range rep.Checks {
		if c.Verdict != checkOK && c.Verdict != checkSkipped {
			require.NotEmpty(w.t, c.Remedy, "every finding says how to mend it: %v", c)
		}
	}

	return rep, r
}

// found lists what is not all right, as "part: check: verdict".
func (r checkupReport) found() []string {
	out := []string{}
	for _, c := range r.Checks {
		if c.Verdict != checkOK {
			out = append(out, c.Part+": "+c.Name+": "+string(c.Verdict))
		}
	}

	return out
}

func (r checkupReport) text(part, name string) string {
	var out []string
	for _, c := range r.Checks {
		if c.Part == part && c.Name == name {
			out = append(out, c.Text+" | "+c.Remedy)
		}
	}

	return strings.Join(out, "\n")
}

// edit changes the configuration file.
func (w *world) edit(old, new string) {
	w.t.Helper()
	raw, err := os.ReadFile(w.config)
	require.NoError(w.t, err)
	require.Contains(w.t, string(raw), old)
	writeText(w.t, w.config, strings.ReplaceAll(string(raw), old, new))
}

func TestDoctorFindsNothingWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 2, 1)
	before := w.objects()
	rep, r := w.doctor(w.name())
	require.Equal(t, 0, r.code, r.stdout)
	require.Empty(t, rep.found())
	require.Contains(t, rep.text("claim", "postgresql"), "PostgreSQL 15")
	require.Contains(t, rep.text("catalog", "connection"), "rest catalog at "+w.catalog.URL)
	require.Contains(t, rep.text("catalog", "table"), w.name()+" loaded")
	require.Contains(t, rep.text("store", "read"), "metadata.json read")
	for _, part := range []string{"claim", "catalog", "store"} {
		require.Contains(t, rep.text(part, "clock"), "differs from this machine's by", part)
	}
	writes := func(p *testenv.Proxy) int {
		return p.Count(func(r testenv.Request) bool {
			return r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.HasSuffix(r.Path, "/tokens")
		})
	}
	require.Zero(t, writes(w.s3)+writes(w.catalog), "without --probe nothing is written")

	rep, r = w.doctor(w.name(), "--probe", "table")
	require.Equal(t, 0, r.code, r.stdout)
	for _, name := range []string{"write", "read back", "listed", "delete"} {
		require.NotEmpty(t, rep.text("store", name), name)
	}
	require.Positive(t, writes(w.s3))
	require.Equal(t, before, w.objects(), "nothing is left")
	require.Zero(t, w.commits())

	r = w.compactor("doctor", "--config", w.config, w.name())
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stdout, "claim\n  ok       mode advisory: claims can be taken\n")
}

func TestDoctorNamesThePartThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 2, 1)

	w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://u:p@" + nowhere + "/db"
	rep, r := w.doctor(w.name())
	require.Equal(t, 1, r.code, r.stdout)
	require.Equal(t, []string{"claim: mode advisory: failed"}, rep.found(), "the rest is looked at all the same")
	w.env["COMPACTOR_CLAIM_POSTGRES"] = w.db.DSN

	w.edit(w.s3.URL, "http://"+nowhere)
	rep, r = w.doctor(w.name())
	require.Equal(t, 1, r.code, r.stdout)
	require.Equal(t, []string{"store: read: failed", "store: list: failed"}, rep.found())
	require.Contains(t, rep.text("store", "read"), "check the endpoint")
	w.edit("http://"+nowhere, w.s3.URL)

	w.edit(w.catalog.URL, "http://"+nowhere)
	rep, r = w.doctor(w.name())
	require.Equal(t, 1, r.code, r.stdout)
	require.Equal(t, []string{"catalog: connection: failed"}, rep.found(), "the store is looked at by the warehouse")
	require.Contains(t, rep.text("catalog", "connection"), "check catalog.uri")
	require.Contains(t, rep.text("store", "list"), w.lake.Warehouse)
}

func TestDoctorNamesTheSettingThatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 2, 1)
	with := func(name, value string, want []string, says string, args ...string) {
		t.Helper()
		old := w.env[name]
		w.env[name] = value
		defer func() { w.env[name] = old }()
		rep, r := w.doctor(append([]string{w.name()}, args...)...)
		require.Equal(t, 2, r.code, r.stdout)
		require.Equal(t, want, rep.found())
		require.Contains(t, r.stdout, says)
		require.NotContains(t, r.stdout, "wrong-secret", "secrets are not shown")
	}
	w.s3.Handle(testenv.Rule{ // The test's own store makes a bucket that it does not have.
		Match:  testenv.MethodPath("", "/no-such-bucket/**"),
		Action: testenv.AnswerWithoutForward(http.StatusNotFound, `<?xml version="1.0"?><Error><Code>NoSuchBucket</Code><Message>no</Message></Error>`),
	})
	with("COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY", "wrong-secret", []string{"store: read: wrong", "store: list: wrong"}, "secret key")
	with("COMPACTOR_CATALOG_CREDENTIAL", w.lake.AccessKey+":wrong-secret", []string{"catalog: connection: wrong"}, "check catalog.credential")
	with("COMPACTOR_CLAIM_POSTGRES", strings.Replace(w.db.DSN, "://", "://nobody-", 1), []string{"claim: mode advisory: wrong"}, "check user, password and pg_hba.conf")
	with("COMPACTOR_CLAIM_MODE", "auto", []string{"claim: mode auto: wrong"}, "set claim.mode to advisory")
	with("NOTHING", "", []string{"store: write: wrong"}, "check the bucket's name", "--probe", "s3://no-such-bucket/probe")
	rep, r := w.doctor(w.lake.Namespace + ".event")
	require.Equal(t, 2, r.code, r.stdout)
	require.Equal(t, []string{"catalog: table: wrong"}, rep.found())
	require.Contains(t, rep.text("catalog", "table"), "has events", "the nearest name")

	w.edit("type: rest", "tipe: rest")
	rep, r = w.doctor()
	require.Equal(t, 2, r.code)
	require.Equal(t, []string{"configuration: values: wrong"}, rep.found())
	require.Contains(t, rep.text("configuration", "values"), "did you mean catalog.type?")
}

func TestDoctorTriesTheRightsOfTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 2, 1)
	denied := testenv.AnswerWithoutForward(http.StatusForbidden, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
	before := w.objects()
	w.s3.Handle(testenv.Rule{Match: func(r *http.Request) bool { return r.Method == http.MethodPut }, Action: denied})
	rep, r := w.doctor(w.name(), "--probe", "table")
	require.Equal(t, 2, r.code, r.stdout)
	require.Equal(t, []string{"store: write: wrong"}, rep.found())
	require.Contains(t, rep.text("store", "write"), "| allow writing (s3:PutObject)")
	require.Equal(t, before, w.objects())

	w.s3.ClearRules()
	w.s3.Handle(testenv.Rule{Match: func(r *http.Request) bool { return r.Method == http.MethodPost || r.Method == http.MethodDelete }, Action: denied})
	rep, r = w.doctor(w.name(), "--probe", "table")
	require.Equal(t, 2, r.code, r.stdout)
	require.Equal(t, []string{"store: delete: wrong", "store: left: warning"}, rep.found())
	left := slices.DeleteFunc(w.objects(), func(o string) bool { return slices.Contains(before, o) })
	require.Len(t, left, 1)
	require.Contains(t, rep.text("store", "left"), left[0], "what is left is named")
}

// A store that is silent has refused nothing, and what was sent to it is taken back.
func TestDoctorOfASilentStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 2, 1)
	before := w.objects()
	answer := make(chan struct{})
	w.s3.Handle(testenv.Rule{
		Match:  func(r *http.Request) bool { return r.Method == http.MethodPut },
		Action: testenv.RewriteAnswer(func(status int, _ http.Header, body []byte) (int, []byte) { <-answer; return status, body }),
	})
	// However slow the machine is: when the time is up before the object is sent, the answer is the same.
	rep, r := w.doctor(w.name(), "--probe", w.load().Location()+"/data", "--answer-within", "2s")
	close(answer)
	require.Equal(t, 1, r.code, r.stdout)
	require.Contains(t, rep.found(), "store: write: failed")
	require.Contains(t, rep.text("store", "write"), "| no answer within 2s says nothing about rights")
	require.NotContains(t, rep.text("store", "write"), "s3:PutObject")
	require.Contains(t, rep.text("store", "left"), "compactor-probe-")
	require.Equal(t, before, w.objects(), "the store has carried it out, and nothing is left")
}

func TestDoctorComparesTheClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 2, 1)
	late := testenv.RewriteAnswer(func(status int, h http.Header, body []byte) (int, []byte) {
		h.Set("Date", time.Now().Add(-10*time.Minute).UTC().Format(http.TimeFormat))

		return status, body
	})
	w.s3.Handle(testenv.Rule{Action: late})
	w.catalog.Handle(testenv.Rule{Action: late})
	w.now = func() time.Time { return time.Now().Add(90 * time.Minute) }
	rep, r := w.doctor(w.name())
	require.Equal(t, 3, r.code, r.stdout)
	require.Equal(t, []string{"claim: clock: warning", "catalog: clock: warning", "store: clock: warning"}, rep.found())
	require.Contains(t, rep.text("claim", "clock"), "by -1h")
	require.Contains(t, rep.text("catalog", "clock"), "-10m")
	require.Contains(t, rep.text("store", "clock"), "-10m")
	_, r = w.doctor(w.name(), "--max-skew", "2h")
	require.Equal(t, 0, r.code, r.stdout)
}

// What has neither PostgreSQL nor a server is looked at as well.
func TestDoctorOfAnEmbeddedCatalog(t *testing.T) {
	t.Parallel()
	store.Register()
	config, _ := embedded(t, "sales.orders")
	w := &world{t: t, env: map[string]string{}, config: config}
	rep, r := w.doctor("--probe", "table", "sales.orders")
	require.Equal(t, 0, r.code, r.stdout)
	require.NotEmpty(t, rep.text("store", "delete"))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(config), "lake", "*", "*", "data", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "no folder is left either")
	rep, r = w.doctor("--claim-mode", "none")
	require.Equal(t, 3, r.code, r.stdout)
	require.Contains(t, rep.found(), "claim: mode none: warning")
	empty, _ := embedded(t)
	w.config = empty
	rep, r = w.doctor()
	require.Equal(t, 3, r.code, r.stdout)
	require.Equal(t, []string{"catalog: tables: warning"}, rep.found())
	for _, args := range []string{"--probe x", "--probe table", "a.b c.d", "--max-skew 0s", "a.*"} {
		r := w.compactor(append([]string{"doctor", "--config", w.config}, strings.Fields(args)...)...)
		require.Equal(t, 2, r.code, "%s: %s", args, r.stderr)
	}
}
