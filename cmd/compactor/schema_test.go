package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"compactor/pkg/maintenance"
)

const schemaDoc = "../../docs/report.schema.json"

// docs/report.schema.json is what the report's types say.
func TestDocsOfTheReport(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, maintenance.WriteSchema(&b))
	if *update {
		require.NoError(t, os.WriteFile(schemaDoc, b.Bytes(), 0o600))
	}
	raw, err := os.ReadFile(schemaDoc)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(raw), "docs/report.schema.json is not current: run `make docs`")
}

// reportSchema is the schema as it is documented, read once.
var reportSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()

	return c.Compile(schemaDoc)
})

func validReport(t *testing.T, text string) {
	t.Helper()
	schema, err := reportSchema()
	require.NoError(t, err)
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
