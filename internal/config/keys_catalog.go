package config

// The words of catalog.type.
const (
	catalogREST = "rest"
	catalogSQL  = "sql"
	catalogGlue = "glue"
)

// noCompareAndSwap is why a catalog cannot be used.
const noCompareAndSwap = "iceberg-go commits to it without a compare-and-swap, so two writers could overwrite each other's commit; use rest, sql or glue"

// allKeys returns every key of the own form except the list of tables.
func allKeys() []*key {
	keys := catalogKeys()
	keys = append(keys, storageKeys()...)
	keys = append(keys, claimKeys()...)
	for _, k := range policyKeys() {
		inPolicy := k.policy
		k.name = "defaults." + k.name
		k.field = func(c *Config) any { return inPolicy(&c.Defaults) }
		keys = append(keys, k)
	}
	return append(keys, metricsKeys()...)
}

func catalogKeys() []*key {
	return []*key{
		{name: "catalog.type", doc: "Kind of catalog.", def: catalogREST, enum: []string{catalogREST, catalogSQL, catalogGlue},
			refused: map[string]string{"hive": noCompareAndSwap, "hadoop": noCompareAndSwap},
			field:   func(c *Config) any { return &c.Catalog.Type }},
		{name: "catalog.name", doc: "Name of the catalog; a SQL catalog keeps its tables under it.", def: "default",
			field: func(c *Config) any { return &c.Catalog.Name }},
		{name: "catalog.uri", doc: "REST: base address, the part before /v1. SQL: the SQLite file. Required for both. Glue: its endpoint, normally none.",
			field: func(c *Config) any { return &c.Catalog.URI }},
		{name: "catalog.warehouse", doc: "Warehouse name, or the location of a warehouse. Glue: the account's catalog when empty.",
			field: func(c *Config) any { return &c.Catalog.Warehouse }},
		{name: "catalog.credential", doc: "OAuth2 client credentials, client_id:client_secret.",
			field: func(c *Config) any { return &c.Catalog.Credential }},
		{name: "catalog.token", doc: "Bearer token, used as it is; it is not renewed.",
			field: func(c *Config) any { return &c.Catalog.Token }},
		{name: "catalog.oauth2_server_uri", doc: "Where tokens are asked for with catalog.credential.", form: tokenAddress,
			note: "the catalog's own /v1/oauth/tokens", field: func(c *Config) any { return &c.Catalog.OAuth2ServerURI }},
		{name: "catalog.scope", doc: "Scope asked for with catalog.credential.", note: "catalog",
			field: func(c *Config) any { return &c.Catalog.Scope }},
		{name: "catalog.properties", doc: "Further properties for the catalog, passed on as they are; secrets are redacted when printed.",
			field: func(c *Config) any { return &c.Catalog.Properties }},
		{name: "catalog.sigv4", doc: "Sign requests to a REST catalog with AWS Signature Version 4.", def: "false",
			field: func(c *Config) any { return &c.Catalog.SigV4 }},
		{name: "catalog.signing_name", doc: "Service name in the signature: s3tables, glue, execute-api.", note: "execute-api",
			field: func(c *Config) any { return &c.Catalog.SigningName }},
		{name: "catalog.signing_region", doc: "Region in the signature; also the region of a Glue catalog.", standard: awsRegionNames(),
			standardWhen: func(c *Config) bool { return c.Catalog.SigV4 || c.Catalog.Type == catalogGlue },
			note:         "the AWS SDK's own", field: func(c *Config) any { return &c.Catalog.SigningRegion }},
		{name: "catalog.timeout", doc: "The most one request to the catalog may take, the wait for a token included.", def: "60s", low: "1s", high: "10m",
			field: func(c *Config) any { return &c.Catalog.Timeout }},
		{name: "catalog.ca_cert", doc: "PEM file with the certificate authority of the catalog.", note: "the system's",
			field: func(c *Config) any { return &c.Catalog.CACert }},
	}
}

func metricsKeys() []*key {
	return []*key{
		{name: "metrics.textfile", doc: "File for the Prometheus node exporter's textfile collector, replaced after each run.",
			field: func(c *Config) any { return &c.Metrics.Textfile }},
		{name: "metrics.pushgateway", doc: "Address of a Prometheus Pushgateway, pushed to after each run.", form: webAddress,
			field: func(c *Config) any { return &c.Metrics.Pushgateway }},
	}
}
