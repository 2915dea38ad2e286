package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"compactor/pkg/maintenance"
)

const (
	schemaDoc     = "../../docs/report.schema.json"
	inspectSchema = "../../docs/inspect.schema.json"
	doctorSchema  = "../../docs/doctor.schema.json"
)

// The schemas in docs/ are what the types of the documents say.
func TestDocsOfTheReport(t *testing.T) {
	for path, write := range map[string]func(io.Writer) error{
		schemaDoc: maintenance.WriteSchema,
		inspectSchema: func(w io.Writer) error {
			return maintenance.WriteSchemaOf(w, "Document of compactor inspect", inspection{})
		},
		doctorSchema: func(w io.Writer) error {
			return maintenance.WriteSchemaOf(w, "Document of compactor doctor", checkupReport{})
		},
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		if *update {
			require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, b.String(), string(raw), "%s is not current: run `make docs`", path)
	}
}

func compileSchema(path string) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()

	return c.Compile(path)
}

// reportSchema is the schema as it is documented, read once.
var reportSchema = sync.OnceValues(func() (*jsonschema.Schema, error) { return compileSchema(schemaDoc) })

func validReport(t *testing.T, text string) {
	t.Helper()
	schema, err := reportSchema()
	require.NoError(t, err)
	validDocument(t, schema, text)
}

// validBy holds a document to the schema in a file.
func validBy(t *testing.T, path, text string) {
	t.Helper()
	schema, err := compileSchema(path)
	require.NoError(t, err)
	validDocument(t, schema, text)
}

func validDocument(t *testing.T, schema *jsonschema.Schema, text string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(doc), "%s", text)
}

// The schema refuses what is no report, so that a report that passes says
// something.
func TestTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema, err := reportSchema()
	require.NoError(t, err)
	const good = `{"program":"compactor","version":"v","run_id":"r","started_at":"2026-01-02T03:04:05Z","finished_at":"2026-01-02T03:04:05Z","exit_code":0,
		"tables":[{"table":"a.b","status":"done","exit_code":0,"steps":[]}]}`
	validReport(t, good)
	for from, to := range map[string]string{
		`"status":"done"`: `"status":"well"`, `"exit_code":0`: `"exit_code":"0"`, `"steps":[]`: `"steps":[{}]`, `"version":"v",`: ``,
		`"run_id":"r"`: `"run_id":"r","surprise":1`, `2026-01-02T03:04:05Z`: `yesterday`, `"table":"a.b"`: `"table":null`,
	} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(good, from, to, 1)))
		require.NoError(t, err)
		require.Error(t, schema.Validate(doc), "%s -> %s", from, to)
	}
}

// What inspect says in JSON follows its schema: of tables with and without a
// snapshot, with an estimate, with failures, and where there is no page.
func TestTheDocumentOfInspectIsValid(t *testing.T) {
	t.Parallel()
	config, _ := sampleTable(t, "watched.empty")
	w := &world{t: t, env: map[string]string{}}
	for args, code := range map[string]int{
		"watched.events":                                    0,
		"watched.empty":                                     0,
		"--all --estimate-orphans":                          0,
		"watched.* watched.missing":                         1,
		"--html /proc/page.html watched.events":             1,
		"--all --exclude watched.events":                    0,
		"--target-file-size 1KiB watched.events":            0,
		"--estimate-orphans watched.empty":                  0,
		"--min-file-size 1 --max-file-size 256GiB *.events": 0,
	} {
		r := w.compactor(append([]string{"inspect", "--config", config, "-o", "json"}, strings.Fields(args)...)...)
		require.Equal(t, code, r.code, "%s: %s", args, r.stderr)
		validBy(t, inspectSchema, r.stdout)
		require.Contains(t, r.stdout, fmt.Sprintf("\"exit_code\": %d,", code))
	}
	schema, err := compileSchema(inspectSchema)
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"program":"compactor","version":"v","at":"2026-01-02T03:04:05Z","exit_code":0,"tables":[{}]}`))
	require.NoError(t, err)
	require.Error(t, schema.Validate(doc), "a table without figures")

	r := w.compactor("inspect", "--config", config, "-o", "json", "--interval", "5s", "watched.events")
	require.Equal(t, 2, r.code)
	validReport(t, r.stdout)
}
