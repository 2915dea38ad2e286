package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const deployment = `postgres:
  dsn: "host=db dbname=cf user=cf password=hush sslmode=disable"
iceberg:
  warehouse: wh
  lakekeeper_endpoint: http://lk:8181/catalog
  namespace: default
s3:
  endpoint: weed:8333
  region: us-east-1
  access_key: admin
  secret_key: adminsecret
  use_ssl: false
  url_style: path
archiver:
  tables: [{source_table: events, partition_period: monthly}]
someone_elses: {key: 1}
`

func TestColdFrontDeploymentFile(t *testing.T) {
	c := mustLoad(t, source(deployment))
	assert.Equal(t, FormColdFront, c.Form)
	assert.Equal(t, "rest", c.Catalog.Type)
	assert.Equal(t, URL("http://lk:8181/catalog"), c.Catalog.URI)
	assert.Equal(t, "wh", c.Catalog.Warehouse)
	assert.Equal(t, S3{Endpoint: "http://weed:8333", Region: "us-east-1", AccessKeyID: "admin", SecretAccessKey: "adminsecret",
		URLStyle: "path", MaxRetries: 4}, *c.Storage.S3)
	assert.True(t, c.Storage.OverrideDeleteDisabled)
	assert.Equal(t, "coldfront", c.Claim.Mode)
	assert.Equal(t, "wh", c.Claim.Realm)
	assert.Equal(t, "host=db dbname=cf user=cf password=hush sslmode=disable", c.Claim.Postgres.Reveal())
	assert.Empty(t, c.Warnings)
	assert.Equal(t, "file c.yaml:2", c.Origin("claim.postgres").String())
	assert.Equal(t, "implied by the form of c.yaml", c.Origin("claim.mode").String())
	require.NoError(t, c.ValidateClaim())
}

func TestColdFrontPolicyIsThatOfItsCommandLine(t *testing.T) {
	c := mustLoad(t, source(deployment))
	props := map[string]string{"write.target-file-size-bytes": "1048576", "history.expire.max-snapshot-age-ms": "86400000"}
	p := c.PolicyFor("public.events", props)
	assert.Equal(t, "128MiB", p.Compact.TargetFileSize.String(), "the table property does not change it, as on ColdFront's command line")
	assert.Equal(t, 5, p.Compact.DeleteFileThreshold)
	assert.Equal(t, "1d", p.Expire.OlderThan.String(), "an age the owner of the table set stands above the default")
	assert.Equal(t, "7d", c.PolicyFor("public.events", nil).Expire.OlderThan.String())

	s := source(deployment)
	s.Flags = map[string]string{"defaults.compact.target_file_size": "64MiB"}
	assert.Equal(t, "64MiB", mustLoad(t, s).PolicyFor("public.events", props).Compact.TargetFileSize.String())
}

func TestColdFrontEndpoints(t *testing.T) {
	yes := true
	for _, c := range []struct {
		s3       string
		endpoint URL
		style    string
		interop  *bool
	}{
		{"{endpoint: \"storage.googleapis.com\", use_ssl: true, access_key: a, secret_key: b}", "https://storage.googleapis.com", "path", &yes},
		{"{endpoint: \"minio.example.com:443\", use_ssl: true, url_style: vhost, access_key: a, secret_key: b}", "https://minio.example.com:443", "vhost", &yes},
		{"{endpoint: \"s3.eu-central-1.amazonaws.com\", use_ssl: true, access_key: a, secret_key: b}", "https://s3.eu-central-1.amazonaws.com", "path", nil},
		{"{endpoint: \"s3.cn-north-1.amazonaws.com.cn\", use_ssl: true, access_key: a, secret_key: b}", "https://s3.cn-north-1.amazonaws.com.cn", "path", nil},
		{"{endpoint: \"https://minio:9000\", access_key: a, secret_key: b}", "https://minio:9000", "path", &yes},
		{"{endpoint: \"minio:9000\", use_ssl: \"false\", access_key: a, secret_key: b}", "http://minio:9000", "path", nil},
		{"{region: eu-south-2, url_style: path, use_ssl: true, access_key: a, secret_key: b}", "", "", nil},
		{"{region: eu-south-2}", "", "", nil},
	} {
		cfg := mustLoad(t, source("postgres: {dsn: host=db}\niceberg: {warehouse: w, lakekeeper_endpoint: \"http://lk:8181\"}\ns3: "+c.s3+"\n"))
		assert.Equal(t, c.endpoint, cfg.Storage.S3.Endpoint, c.s3)
		assert.Equal(t, c.style, cfg.Storage.S3.URLStyle, c.s3)
		assert.Equal(t, c.interop, cfg.Storage.S3.GCSInterop, c.s3)
		assert.Equal(t, c.endpoint != "" && c.style == "path", cfg.Storage.S3.PathStyle(), c.s3)
	}
}

func TestColdFrontCatalogAddress(t *testing.T) {
	for in, want := range map[string]string{
		"http://lk:8181":                 "http://lk:8181/catalog",
		"http://lk:8181/":                "http://lk:8181/catalog",
		"http://lk:8181/catalog":         "http://lk:8181/catalog",
		"http://lk:8181/catalog/":        "http://lk:8181/catalog",
		"https://proxy/lake/api/catalog": "https://proxy/lake/api/catalog",
		"https://proxy/lake/":            "https://proxy/lake",
	} {
		assert.Equal(t, want, lakekeeperURI(in), in)
	}
}

func TestColdFrontVendedCredentials(t *testing.T) {
	c := mustLoad(t, source("postgres: {dsn: host=db}\niceberg: {warehouse: w, lakekeeper_endpoint: \"http://lk:8181\"}\ns3:\n  endpoint: \"\"\n  access_key: \"\"\n"))
	assert.Nil(t, c.Storage.S3, "empty keys must not hide the credentials the catalog vends")
	assert.Equal(t, Storage{OverrideDeleteDisabled: true}, c.Storage)
}

func TestColdFrontAzure(t *testing.T) {
	text := "postgres: {dsn: host=db}\niceberg: {warehouse: w, lakekeeper_endpoint: \"http://lk:8181\"}\nazure:\n  connection_string: "
	c := mustLoad(t, source(text+"\"DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=QUJD==;EndpointSuffix=core.windows.net\"\n"))
	account, key, err := c.Storage.Azure.SharedKey()
	require.NoError(t, err)
	assert.Equal(t, [2]string{"lake", "QUJD=="}, [2]string{account, key.Reveal()})
	assert.Equal(t, []string{"c.yaml:4: azure.connection_string: must hold AccountName and AccountKey"}, loadFails(t, source(text+"\"AccountName=lake\"\n")))
}

func TestColdFrontViolations(t *testing.T) {
	got := loadFails(t, source(`postgres: {dsn: "host"}
iceberg: {warehose: w, namespace: default}
s3: {endpoint: "minio:9000", access_key: a, use_ssl: perhaps, url_style: virtual, use_tls: true}
azure: {connection_string: "AccountName=a;AccountKey=b"}
claim: {mode: none}
archiver: {tables: []}
`))
	assert.ElementsMatch(t, []string{
		"c.yaml:1: postgres.dsn: is neither a postgres:// URL nor keywords such as host=db dbname=lake user=compactor",
		`c.yaml:3: s3.use_ssl: "perhaps" is neither true nor false`,
		`c.yaml:3: s3.url_style: "virtual" is none of path, vhost`,
		"c.yaml:3: s3.access_key: has no secret key beside it: set s3.secret_key",
		"c.yaml:5: claim: belongs to the own form and has no effect in a ColdFront deployment file; use the environment (COMPACTOR_CLAIM_…) or a file of the own form",
		"iceberg.lakekeeper_endpoint: is required: the base address of the catalog, such as http://lakekeeper:8181/catalog (or set COMPACTOR_CATALOG_URI)",
		"iceberg.warehouse: is required: the warehouse in Lakekeeper (or set COMPACTOR_CATALOG_WAREHOUSE)",
		"storage: holds more than one of s3, azure and gcs; a table lives in one store",
	}, got)

	got = loadFails(t, source("iceberg: {warehouse: w}\ncatalog: {uri: \"http://c\"}\n"))
	assert.Len(t, got, 1)
	assert.Contains(t, got[0], "c.yaml:1: iceberg: unknown key", "a file with a catalog section is of the own form, whatever else it holds")
}

func TestColdFrontNearMissesAreWarnings(t *testing.T) {
	text := strings.Replace(deployment, "url_style:", "url_stile:", 1)
	c := mustLoad(t, source(text))
	assert.Equal(t, []string{"c.yaml:13: s3.url_stile: is not a key of this program and is ignored; did you mean s3.url_style?"}, c.Warnings)
}

func TestColdFrontFileIsStrongerThanStandardNames(t *testing.T) {
	s := source(deployment)
	s.Env = env(map[string]string{"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other", "AWS_REGION": "eu-west-1",
		"PGHOST": "elsewhere", "COMPACTOR_CLAIM_MODE": "auto", "COMPACTOR_CLAIM_POSTGRES": "host=node2 password=x"})
	c := mustLoad(t, s)
	assert.Equal(t, "admin", c.Storage.S3.AccessKeyID)
	assert.Equal(t, Secret("adminsecret"), c.Storage.S3.SecretAccessKey)
	assert.Equal(t, "us-east-1", c.Storage.S3.Region)
	assert.Equal(t, "auto", c.Claim.Mode)
	assert.Equal(t, "host=node2 password=x", c.Claim.Postgres.Reveal())
}
