package config

// The words of storage.s3.url_style.
const (
	urlStylePath  = "path"
	urlStyleVHost = "vhost"
)

// Keys that other code of the package names.
const (
	keyS3Endpoint     = "storage.s3.endpoint"
	keyS3Region       = "storage.s3.region"
	keyS3AccessKeyID  = "storage.s3.access_key_id"
	keyS3SecretKey    = "storage.s3.secret_access_key"
	keyS3SessionToken = "storage.s3.session_token"
)

// awsRegionNames are the environment names of the AWS region, in the order
// the AWS SDK reads them.
func awsRegionNames() []string { return []string{"AWS_REGION", "AWS_DEFAULT_REGION"} }

func storageKeys() []*key {
	keys := s3Keys()
	for _, k := range keys {
		k.optional = func(c *Config) bool { return c.Storage.S3 != nil }
	}
	azure := azureKeys()
	for _, k := range azure {
		k.optional = func(c *Config) bool { return c.Storage.Azure != nil }
	}
	gcs := gcsKeys()
	for _, k := range gcs {
		k.optional = func(c *Config) bool { return c.Storage.GCS != nil }
	}
	keys = append(append(keys, azure...), gcs...)
	return append(keys, &key{name: "storage.override_delete_disabled", def: "false",
		doc:   "Delete files even where the catalog sends s3.delete-enabled=false.",
		field: func(c *Config) any { return &c.Storage.OverrideDeleteDisabled }})
}

// section returns the section p points to, made on first use.
func section[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func s3Keys() []*key {
	return []*key{
		{name: keyS3Endpoint, doc: "Address of an S3-compatible store, with http:// or https://.", note: "AWS itself", form: webAddress,
			standard: []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
			field:    func(c *Config) any { return &section(&c.Storage.S3).Endpoint }},
		{name: keyS3Region, doc: "Region of the bucket.", note: "us-east-1 with an endpoint, otherwise the AWS SDK's own",
			standard: awsRegionNames(), field: func(c *Config) any { return &section(&c.Storage.S3).Region }},
		{name: keyS3AccessKeyID, doc: "Access key id; with the secret key it replaces the AWS SDK's default chain.",
			standard: []string{"AWS_ACCESS_KEY_ID"}, field: func(c *Config) any { return &section(&c.Storage.S3).AccessKeyID }},
		{name: keyS3SecretKey, doc: "Secret access key.", standard: []string{"AWS_SECRET_ACCESS_KEY"},
			field: func(c *Config) any { return &section(&c.Storage.S3).SecretAccessKey }},
		{name: keyS3SessionToken, doc: "Session token of temporary keys.", standard: []string{"AWS_SESSION_TOKEN"},
			field: func(c *Config) any { return &section(&c.Storage.S3).SessionToken }},
		{name: "storage.s3.profile", doc: "Profile in the AWS configuration files.", standard: []string{"AWS_PROFILE"},
			field: func(c *Config) any { return &section(&c.Storage.S3).Profile }},
		{name: "storage.s3.url_style", doc: "Bucket in the path or in the host name.", enum: []string{urlStylePath, urlStyleVHost},
			note: "path with an endpoint, otherwise vhost", field: func(c *Config) any { return &section(&c.Storage.S3).URLStyle }},
		{name: "storage.s3.ca_cert", doc: "PEM file with the certificate authority of the store.", note: "the system's",
			standard: []string{"AWS_CA_BUNDLE"}, field: func(c *Config) any { return &section(&c.Storage.S3).CACert }},
		{name: "storage.s3.gcs_interop", doc: "Sign as Google's S3 interop needs: Accept-Encoding unsigned, checksums only when required.",
			note: "true for an endpoint of Google's", field: func(c *Config) any { return &section(&c.Storage.S3).GCSInterop }},
		{name: "storage.s3.max_retries", doc: "Retries of one request, after the first attempt.", def: "4", low: "0", high: "20",
			field: func(c *Config) any { return &section(&c.Storage.S3).MaxRetries }},
	}
}

func azureKeys() []*key {
	return []*key{
		{name: "storage.azure.connection_string", doc: "Connection string with AccountName and AccountKey.",
			field: func(c *Config) any { return &section(&c.Storage.Azure).ConnectionString }},
		{name: "storage.azure.account_name", doc: "Storage account.",
			field: func(c *Config) any { return &section(&c.Storage.Azure).AccountName }},
		{name: "storage.azure.account_key", doc: "Shared key of the storage account.",
			field: func(c *Config) any { return &section(&c.Storage.Azure).AccountKey }},
		{name: "storage.azure.sas_token", doc: "Shared access signature.",
			field: func(c *Config) any { return &section(&c.Storage.Azure).SASToken }},
		{name: "storage.azure.endpoint", doc: "Address of the store.", note: "Azure itself", form: webAddress,
			field: func(c *Config) any { return &section(&c.Storage.Azure).Endpoint }},
		{name: "storage.azure.managed_identity", doc: "Use the managed identity of the machine.", def: "false",
			field: func(c *Config) any { return &section(&c.Storage.Azure).ManagedIdentity }},
		{name: "storage.azure.client_id", doc: "Client id of a user-assigned managed identity.",
			field: func(c *Config) any { return &section(&c.Storage.Azure).ClientID }},
	}
}

func gcsKeys() []*key {
	return []*key{
		{name: "storage.gcs.endpoint", doc: "Address of the store.", note: "Google Cloud itself", form: webAddress,
			field: func(c *Config) any { return &section(&c.Storage.GCS).Endpoint }},
		{name: "storage.gcs.credentials_file", doc: "JSON key of a service account.", note: "the default chain",
			field: func(c *Config) any { return &section(&c.Storage.GCS).CredentialsFile }},
		{name: "storage.gcs.no_auth", doc: "Send no credentials, for emulators.", def: "false",
			field: func(c *Config) any { return &section(&c.Storage.GCS).NoAuth }},
	}
}
