package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestSecretsDoNotStandInTheOwnForm(t *testing.T) {
	got := loadFails(t, source(`catalog:
  uri: http://cat:8181
  credential: id:hush
storage:
  azure: {account_name: a, account_key: hush}
claim:
  postgres: postgres://me:hush@db/lake
`))
	assert.Equal(t, []string{
		"c.yaml:3: catalog.credential: a secret does not belong in this file: set COMPACTOR_CATALOG_CREDENTIAL, or name a file that holds it in catalog.credential_file",
		"c.yaml:5: storage.azure.account_key: a secret does not belong in this file: set COMPACTOR_STORAGE_AZURE_ACCOUNT_KEY, or name a file that holds it in storage.azure.account_key_file",
		"c.yaml:7: claim.postgres: a password does not belong in this file: set PGPASSWORD, use a password file, give the whole string in COMPACTOR_CLAIM_POSTGRES, or name a file that holds it in claim.postgres_file",
	}, got)
	c := mustLoad(t, source(minimal+"claim: {postgres: \"host=db user=me\"}\n"))
	assert.Equal(t, "host=db user=me", c.Claim.Postgres.Reveal(), "without a password it may stand there")
}

func TestSecretsAreNeverFlags(t *testing.T) {
	s := source(minimal)
	flags := map[string]string{"catalog.token": "hush", "claim.postgres": "host=db password=hush"}
	s.Flags = flags
	got := strings.Join(loadFails(t, s), "\n")
	assert.Contains(t, got, "flag --catalog-token: catalog.token: a secret is never a flag")
	assert.Contains(t, got, "flag --claim-postgres: claim.postgres: a secret is never a flag")
	assert.NotContains(t, got, "hush")
	assert.Len(t, flags, 2, "the caller's map is left alone")

	s.Flags = map[string]string{"claim.postgres": "host=db", "catalog.token_file": "tok"}
	s.ReadFile = files(map[string]string{"c.yaml": minimal, "tok": "hush\n"})
	c := mustLoad(t, s)
	assert.Equal(t, "host=db", c.Claim.Postgres.Reveal())
	assert.Equal(t, "hush", c.Catalog.Token.Reveal())
	assert.Equal(t, "flag --catalog-token-file", c.Origin("catalog.token").String())
}

func TestSecretFiles(t *testing.T) {
	s := source("")
	s.ReadFile = files(map[string]string{
		"c.yaml":     minimal + "  token_file: /run/token\nclaim: {postgres_file: /run/dsn}\n",
		"/run/token": "from-file\r\n", "/run/dsn": "postgres://me:hush@db/lake\n", "/run/other": "from-env", "/run/empty": "\n", "/run/two": "a\nb\n"})
	c := mustLoad(t, s)
	assert.Equal(t, "from-file", c.Catalog.Token.Reveal())
	assert.Equal(t, "file c.yaml:4", c.Origin("catalog.token").String())
	assert.Equal(t, "postgres://me:hush@db/lake", c.Claim.Postgres.Reveal())

	s.Env = env(map[string]string{"COMPACTOR_CATALOG_TOKEN_FILE": "/run/other"})
	assert.Equal(t, "from-env", mustLoad(t, s).Catalog.Token.Reveal(), "the environment's file beats the file's file")

	for path, want := range map[string]string{"/run/none": "file does not exist", "/run/empty": "the file is empty", "/run/two": "holds a control character"} {
		s.Env = env(map[string]string{"COMPACTOR_CATALOG_TOKEN_FILE": path})
		got := strings.Join(loadFails(t, s), "\n")
		assert.Contains(t, got, want, path)
	}
	s.Env = env(map[string]string{"COMPACTOR_CATALOG_TOKEN_FILE": "/run/other", "COMPACTOR_CATALOG_TOKEN": "x"})
	assert.Equal(t, []string{"environment COMPACTOR_CATALOG_TOKEN: catalog.token: is given directly and with catalog.token_file at once; give one"}, loadFails(t, s))
}

func TestNothingPrintsASecret(t *testing.T) {
	s := source(`catalog:
  uri: http://cat:8181
  warehouse: lake
  properties: {s3.secret-access-key: hush, rest.header.authorization: hush, plain: shown, url: "http://u:hush@h/", adls.sas-token.acc: hush}
storage: {s3: {access_key_id: AKIA}}
`)
	s.Env = env(map[string]string{"COMPACTOR_CATALOG_TOKEN": "hush", "COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY": "hush",
		"COMPACTOR_STORAGE_S3_SESSION_TOKEN": "hush", "COMPACTOR_CLAIM_POSTGRES": "host=db user=me password='hush' sslpassword = hush"})
	c := mustLoad(t, s)
	assert.Contains(t, strings.Join(c.Warnings, "\n"), "c.yaml:4: catalog.properties.s3.secret-access-key: looks like a secret")

	var table, doc, lines bytes.Buffer
	require.NoError(t, c.Show(&table, ShowOptions{Table: "a.b"}))
	require.NoError(t, c.Show(&doc, ShowOptions{Table: "a.b", JSON: true}))
	logger := zerolog.New(&lines)
	logger.Info().Interface("config", c).Str("dsn", c.Claim.Postgres.String()).Send()
	asJSON, err := json.Marshal(c)
	require.NoError(t, err)
	asYAML, err := yaml.Marshal(c)
	require.NoError(t, err)
	outputs := map[string]string{"table": table.String(), "document": doc.String(), "log": lines.String(), "json": string(asJSON), "yaml": string(asYAML),
		"%v": fmt.Sprintf("%v %v", *c, *c.Storage.S3), "%+v": fmt.Sprintf("%+v %+v", *c, *c.Storage.S3), "%#v": fmt.Sprintf("%#v %#v", *c, *c.Storage.S3),
		"%x": fmt.Sprintf("%x %q %s", c.Catalog.Token, c.Claim.Postgres, c.Catalog.Properties)}
	for name, text := range outputs {
		assert.NotContains(t, text, "hush", name)
		assert.NotContains(t, text, "68757368", "%s in hexadecimal", name)
	}
	assert.Contains(t, outputs["table"], "plain=shown")
	assert.Contains(t, outputs["table"], "host=db user=me password=REDACTED sslpassword=REDACTED")
	assert.Contains(t, outputs["table"], "AKIA", "an access key id is no secret")
}

func TestRedactDSN(t *testing.T) {
	for in, want := range map[string]string{
		"":                                         "",
		"host=db user=me":                          "host=db user=me",
		"host=db password=p":                       "host=db password=REDACTED",
		`host=db password='a b\' c' user=me`:       "host=db password=REDACTED user=me",
		`host = db  password = a\ b`:               "host=db password=REDACTED",
		"postgres://me:p@db:5432/lake?a=b":         "postgres://me:REDACTED@db:5432/lake?a=b",
		"postgresql://db/lake?password=p&a=b":      "postgresql://db/lake?a=b&password=REDACTED",
		"postgres://me@db/lake":                    "postgres://me@db/lake",
		"postgres://me:p/q@db/lake":                redacted,
		"postgres://me:1/2@db/lake":                redacted,
		"postgres://me:1#2@db/lake":                redacted,
		"postgres://db/lake?password=%zz":          redacted,
		"host=db password='open":                   redacted,
		"just-a-password":                          redacted,
		`host=db password=x\`:                      redacted,
		"jdbc:postgresql://h/db?user=u&password=x": redacted,
		"PGPASSWORD=x host=db":                     redacted,
		"dbname=postgres://u:x@h/db user=me":       "dbname=REDACTED user=me",
		"dbname=postgres://u@h/db?password=x":      "dbname=REDACTED",
	} {
		assert.Equal(t, want, RedactDSN(in), in)
	}
}

func TestAConnectionStringOfAnotherProgramIsRefusedWithoutShowingIt(t *testing.T) {
	for _, dsn := range []string{"jdbc:postgresql://h/db?user=u&password=hush", "Server=h;Password=hush", "mysql://u:hush@h/db"} {
		s := source(minimal)
		s.Env = env(map[string]string{"COMPACTOR_CLAIM_POSTGRES": dsn})
		got := loadFails(t, s)
		assert.Equal(t, []string{"environment COMPACTOR_CLAIM_POSTGRES: claim.postgres: is neither a postgres:// URL nor keywords such as " +
			"host=db dbname=lake user=compactor"}, got, dsn)
		c, _ := Load(s)
		assert.Equal(t, redacted, c.Claim.Postgres.String())
	}
}

func TestAddressesPrintWithoutWhatMayBeASecret(t *testing.T) {
	for in, want := range map[string]string{
		"http://h:1/p":               "http://h:1/p",
		"http://h/p?code=hush&a=b":   "http://h/p?code=REDACTED&a=REDACTED",
		"http://h/p?hush":            "http://h/p?REDACTED",
		"http://h/p?a=%zz":           "http://h/p?a=REDACTED",
		"http://hush@h/p#hush":       "http://REDACTED@h/p#REDACTED",
		"http://u:hush@h/p":          "http://u:REDACTED@h/p",
		"http://u:hush#x@h/p":        "(redacted)#REDACTED",
		"/var/lib/catalog.db?k=hush": "/var/lib/catalog.db?k=REDACTED",
		"/var/lib/catalog.db":        "/var/lib/catalog.db",
	} {
		assert.Equal(t, want, URL(in).String(), in)
	}
	got := loadFails(t, source("catalog: {uri: \"http://cat:8181/x?code=hush\"}\nmetrics: {pushgateway: \"http://push/?code=hush\"}\n"))
	assert.Equal(t, []string{"c.yaml:1: catalog.uri: must not hold anything behind a ? or #",
		"c.yaml:2: metrics.pushgateway: must not hold anything behind a ? or #"}, got)

	s := source(minimal + "  oauth2_server_uri: http://id/token?policy=hush\n")
	s.Env = env(map[string]string{"COMPACTOR_CATALOG_CREDENTIAL": "id:x"})
	assert.Equal(t, "http://id/token?policy=REDACTED", mustLoad(t, s).Catalog.OAuth2ServerURI.String(), "a token endpoint may have a query")
}

func TestEveryHeaderPropertyIsRedacted(t *testing.T) {
	p := Properties{"header.X-Tenant-Key": "hush", "Header.x-uri": "hush", "rest.header.x": "hush", "plain": "shown", "u": "http://h/?x=hush"}
	assert.NotContains(t, p.String(), "hush")
	assert.Contains(t, p.String(), "plain=shown")
}

func FuzzRedactDSN(f *testing.F) {
	for _, s := range []string{"hush", "a b", "a'b", `a\b`, "ü=ß", "", "@/:?#%", "\t\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		secret := "S3CR" + text
		dsn := "host=db password=" + "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(secret) + "' user=me"
		assert.Equal(t, "host=db password=REDACTED user=me", RedactDSN(dsn))
		for _, raw := range []string{"host=db password=" + secret, "postgres://me:" + secret + "@db/lake", "postgres://db/lake?password=" + secret} {
			assert.NotContains(t, RedactDSN(raw), "S3CR", raw)
		}
	})
}

func TestStandardAWSKeysCountAsAWhole(t *testing.T) {
	aws := map[string]string{"AWS_ACCESS_KEY_ID": "env-id", "AWS_SECRET_ACCESS_KEY": "env-secret", "AWS_REGION": "eu-west-1", "AWS_PROFILE": "p"}
	with := func(more map[string]string) func(string) (string, bool) {
		all := map[string]string{}
		for _, m := range []map[string]string{aws, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return env(all)
	}
	section := minimal + "storage: {s3: {access_key_id: file-id, region: us-east-2, session_token_file: /tok}}\n"
	read := files(map[string]string{"c.yaml": section, "/tok": "file-token"})

	c := mustLoad(t, Source{Path: "c.yaml", ReadFile: read, Env: with(nil)})
	assert.Equal(t, S3{Region: "eu-west-1", AccessKeyID: "env-id", SecretAccessKey: "env-secret", Profile: "p", MaxRetries: 4}, *c.Storage.S3,
		"all from the environment: the token of the file belongs to other keys")
	assert.Equal(t, "environment AWS_REGION", c.Origin("storage.s3.region").String())

	c = mustLoad(t, Source{Path: "c.yaml", ReadFile: read, Env: with(map[string]string{"COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY": "own"})})
	assert.Equal(t, []string{"file-id", "own", "file-token"}, []string{c.Storage.S3.AccessKeyID, c.Storage.S3.SecretAccessKey.Reveal(), c.Storage.S3.SessionToken.Reveal()},
		"our own name is stronger, and with it the file's id")

	c = mustLoad(t, Source{Path: "c.yaml", ReadFile: files(map[string]string{"c.yaml": minimal}), Env: with(nil)})
	assert.Nil(t, c.Storage.S3, "without a section the names are left to the AWS SDK, so that they do not hide vended credentials")
}

func TestPostgresFromTheEnvironment(t *testing.T) {
	pg := map[string]string{"PGHOST": "db one", "PGPORT": "6432", "PGUSER": "me", "PGDATABASE": "lake", "PGPASSWORD": "hush"}
	s := source(minimal)
	s.Env = env(pg)
	c := mustLoad(t, s)
	assert.Equal(t, "host='db one' port=6432 dbname=lake user=me", c.Claim.Postgres.Reveal(), "the password is left to the client")
	assert.Equal(t, "environment PGHOST", c.Origin("claim.postgres").String())

	s = source(minimal + "claim: {postgres: host=filedb}\n")
	s.Env = env(pg)
	assert.Equal(t, "host=filedb", mustLoad(t, s).Claim.Postgres.Reveal(), "as in libpq, PGHOST is what a connection string leaves out")

	s = source(minimal)
	s.Env = env(map[string]string{"PGPORT": "6432", "PGUSER": "me"})
	assert.Empty(t, mustLoad(t, s).Claim.Postgres, "a port alone names no server")
}
