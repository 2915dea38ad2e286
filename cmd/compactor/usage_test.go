package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// What is wrong with a command line is said once, in the words of the command line.
func TestAWrongCommandLineIsExplained(t *testing.T) {
	t.Parallel()
	w := &world{t: t, env: map[string]string{}}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"expire --retain-lastt 3 a.b", 2, "unknown flag --retain-lastt, did you mean --retain-last?; see compactor expire --help"},
		{"expire --zzzzzzzzzzzzzzzzzz a.b", 2, "unknown flag --zzzzzzzzzzzzzzzzzz; see compactor expire --help"},
		{"expire --parallel x a.b", 2, `--parallel "x": use a whole number; see compactor expire --help`},
		{"expire --parallel 99999999999999999999 a.b", 2, `--parallel "99999999999999999999": use a whole number; see compactor expire --help`},
		{"expire --snapshot-id 1,b a.b", 2, `--snapshot-id "1,b": use a whole number; see compactor expire --help`},
		{"compact --dry-run=maybe a.b", 2, `--dry-run "maybe": give it no value, or true or false; see compactor compact --help`},
		{"compact a.b --config", 2, "--config needs a value; see compactor compact --help"},
		{"claim doctor --max-skew 5", 2, `--max-skew "5": use a number with a unit, such as 500ms, 15s or 2m; see compactor claim doctor --help`},
		{"claim exec --grace z a.b -- true", 125, `--grace "z": use a number with a unit, such as 500ms, 15s or 2m; see compactor claim exec --help`},
		{"--parallel-groups y compact a.b", 2, `--parallel-groups "y": use a whole number; see compactor --help`},
		{"compakt a.b", 2, `unknown command "compakt", did you mean compact?; see compactor --help`},
		{"claim statuss a.b", 2, `unknown command "statuss", did you mean status?; see compactor claim --help`},
		{"claim status sales.*", 2, `TABLE "sales.*" is a glob, and this command takes single tables`},
		{"claim exec sales.* -- true", 125, `TABLE "sales.*" is a glob, and this command takes single tables`},
		{"config show extra", 2, `compactor config show takes no arguments, but was given "extra"`},
		{"config validate extra", 2, `compactor config validate takes no arguments, but was given "extra"`},
		{"config show --table sales.*", 2, `TABLE "sales.*" is a glob, and this command takes single tables`},
	} {
		r := w.compactor(strings.Fields(c.args)...)
		require.Equal(t, c.code, r.code, "%s: %s", c.args, r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %s", r.stderr)
		require.True(t, strings.HasPrefix(r.stderr, "compactor: "+c.says), "%s: %s", c.args, r.stderr)
	}
}

// A name in a report can be typed as it is shown, and does nothing to a terminal.
func TestNamesAreShownAsTheyAreTyped(t *testing.T) {
	t.Parallel()
	store.Register()
	config, _ := embedded(t, `odd."a.b"`, "odd.\u202ebackwards")
	w := &world{t: t, env: map[string]string{}, config: config}
	r := w.compactor("run", "--config", config, "--all", "-o", "json")
	require.Equal(t, 0, r.code, r.stderr)
	names := r.fleet(t).codes()
	require.Contains(t, names, `odd."a.b"`)
	r = w.compactor("run", "--config", config, "-o", "json", `odd."a.b"`)
	require.Equal(t, 0, r.code, r.stderr)
	require.Len(t, r.fleet(t).codes(), 1)
	require.Contains(t, names, `odd."\u202ebackwards"`, "no control character reaches the terminal")
}

// What an error quotes does nothing to a terminal either, whoever writes it.
func TestErrorsDoNothingToATerminal(t *testing.T) {
	t.Parallel()
	store.Register()
	config, _ := embedded(t, "odd.fine")
	w := &world{t: t, env: map[string]string{}, config: config}
	const name = "odd.\u202ebackwards\u009b31m"
	for _, args := range [][]string{
		{"run", name}, {"run", name, "odd.fine"}, {"inspect", name}, {"inspect", name, "odd.fine"}, {"doctor", name},
		{"config", "show", "--table", name}, {"inspect", name + "*"}, {"compact", "--engine", name, "odd.fine"},
	} {
		p := w.start(append([]string{"--config", config}, args...)...)
		r := p.result(2 * time.Minute)
		require.NotZero(t, r.code, args)
		text := r.stdout + r.stderr
		require.NotContains(t, text, "\u202e", args)
		require.NotContains(t, text, "\u009b", args)
		require.Contains(t, text, `\u202ebackwards\u009b31m`, args)
	}
}

// A terminal that goes away stops the program as SIGTERM does, with a report and a code of its own.
func TestSIGHUPStopsCleanly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 1)
	held, err := w.openClaimer().Acquire(t.Context(), w.key(), acquireNow())
	require.NoError(t, err)
	p := w.start(w.compactArgs()...)
	w.waitQueued()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	r := p.result(30 * time.Second)
	require.NoError(t, held.Release(context.Background()))
	require.Equal(t, 129, r.code, r.stderr)
	require.Equal(t, "stopped", r.step(t).Status)
	require.True(t, w.claimFree())
}

// A store that does not answer says nothing about what is in a file.
func TestAFailingStoreIsNoUnreadableFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["COMPACTOR_STORAGE_S3_MAX_RETRIES"] = "0"
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	tbl := w.createPartitioned(icebergcatalog.WithPartitionSpec(&spec))
	for i := range 6 {
		tbl = tabletest.Append(t, tbl, fmt.Sprintf(`[{"id":%d,"s":"x","p":"good"},{"id":%d,"s":"y","p":"bad"}]`, 2*i, 2*i+1))
	}
	w.s3.Handle(testenv.Rule{
		Match:  func(r *http.Request) bool { return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "p=bad") },
		Action: testenv.AnswerWithoutForward(http.StatusServiceUnavailable, ""),
	})
	r := w.compact()
	require.Equal(t, 3, r.code, r.stdout+r.stderr)
	step := r.step(t)
	bad := slices.Concat(step.Failed, step.Refused)
	require.Len(t, bad, 1)
	require.Contains(t, bad[0].Reason, "p=bad", "the file is named")
	require.Contains(t, bad[0].Reason, "503")
	require.NotContains(t, bad[0].Reason, "unreadable")
	require.NotContains(t, bad[0].Reason, "\n")
}
