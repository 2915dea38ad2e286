package config

// Form is the kind of file a Config was read from.
type Form string

// The forms of a configuration file.
const (
	// FormOwn is compactor's own, strict form; also used when there is no file.
	FormOwn Form = "own"
	// FormColdFront is the deployment YAML of ColdFront.
	FormColdFront Form = "coldfront"
)

// Config holds every setting. Load makes one; a program that has no file (the
// demo) starts from Default, sets fields and calls Validate.
type Config struct {
	// Form says what kind of file was read.
	Form Form
	// Path is the file read, empty when there was none.
	Path string
	// Catalog says where tables are loaded from and committed to.
	Catalog Catalog
	// Storage says how data files are reached when the catalog does not vend
	// credentials.
	Storage Storage
	// Claim says how a table is claimed before it is touched.
	Claim Claim
	// Defaults is the policy of every table, before its own entries and
	// properties.
	Defaults Policy
	// Tables are overrides by name; later entries win, field by field.
	Tables []TablePolicy
	// Metrics says where figures go after a run.
	Metrics Metrics
	// Warnings are remarks an operator should see that do not stop a run.
	Warnings []string

	origins         map[string]Origin
	catalogOptional bool
	// doubtful are the keys and sections of the file that could not be read; ""
	// is the whole file. Whether they are missing is not known.
	doubtful []string
}

// Catalog is the Iceberg catalog. Units, defaults and ranges of all fields
// are in the table of keys (docs/configuration.md).
type Catalog struct {
	Type            string // rest, sql or glue.
	Name            string
	URI             URL
	Warehouse       string
	Credential      Secret // client_id:client_secret for OAuth2.
	Token           Secret
	OAuth2ServerURI URL
	Scope           string
	Properties      Properties
	SigV4           bool
	SigningName     string
	SigningRegion   string
	Timeout         Duration // Each request.
	CACert          string   // Path of a PEM file.
}

// Storage is the object store. At most one of its stores is set; none means
// that the catalog vends credentials, or that the environment of the process
// has them.
type Storage struct {
	S3                     *S3
	Azure                  *Azure
	GCS                    *GCS
	OverrideDeleteDisabled bool
}

// S3 is an S3 or S3-compatible store.
type S3 struct {
	Endpoint        URL // Empty: AWS itself.
	Region          string
	AccessKeyID     string
	SecretAccessKey Secret
	SessionToken    Secret
	Profile         string
	URLStyle        string // path, vhost, or empty: path when there is an endpoint.
	CACert          string // Path of a PEM file.
	GCSInterop      *bool  // Nil: decided by the endpoint.
	MaxRetries      int
}

// Azure is Azure Data Lake Storage Gen2.
type Azure struct {
	ConnectionString Secret
	AccountName      string
	AccountKey       Secret
	SASToken         Secret
	Endpoint         URL
	ManagedIdentity  bool
	ClientID         string
}

// GCS is Google Cloud Storage by its own protocol.
type GCS struct {
	Endpoint        URL
	CredentialsFile string // Path of a JSON key; empty: the default chain.
	NoAuth          bool
}

// Claim says how a table's claim is taken.
type Claim struct {
	Mode      string // coldfront, bakery, advisory, file, none or auto.
	Realm     string
	Postgres  DSN
	Dir       string
	Pooler    string // refuse or session.
	DeadPeer  string // quorum, wait or escape.
	Window    Duration
	Timeout   Duration // 0: wait for ever.
	MaxHold   Duration // 0: one claim for all.
	MaxRounds int
}

// Metrics says where figures go after a run.
type Metrics struct {
	Textfile    string
	Pushgateway URL
}

// Policy says what the steps do to one table.
type Policy struct {
	Compact   Compact
	Manifests Manifests
	Expire    Expire
	Orphans   Orphans
}

// Compact is the policy of the rewrite of data files.
type Compact struct {
	Enabled              bool
	TargetFileSize       Size
	MinFileSize          Size // 0: 75 % of the target.
	MaxFileSize          Size // 0: 180 % of the target.
	MinInputFiles        int
	DeleteFileThreshold  int // 0: the number of delete files is no reason.
	DeleteRatioThreshold float64
	RewriteDeletes       bool
	MaxGroupSize         Size
	Strategy             string
	SortBy               string // Empty: the table's sort order.
	Engine               string
	Recompress           bool
	WhenSmallFiles       int     // In a run only from so many on; 0: no reason.
	WhenSmallShare       float64 // The same for the share of bytes; 0: no reason.
	WhenDeleteShare      float64 // The same for the share of rows; 0: no reason.
	Interval             Duration
}

// Manifests is the policy of the rewrite of manifests.
type Manifests struct {
	Enabled       bool
	TargetSize    Size
	WhenManifests int // In a run only from so many on; 0: always.
	Interval      Duration
}

// Expire is the policy of snapshot expiry.
type Expire struct {
	Enabled              bool
	OlderThan            Duration
	RetainLast           int
	KeepFiles            bool
	CleanExpiredMetadata bool
	WhenSnapshots        int // In a run only from so many on; 0: always.
}

// Orphans is the policy of the removal of unreferenced files.
type Orphans struct {
	Enabled   bool
	OlderThan Duration
	MaxShare  float64
}

// TablePolicy overrides the policy of the tables whose namespace.table
// matches. Only the keys in Set count.
type TablePolicy struct {
	// Match is a glob on namespace.table; * also matches dots.
	Match string
	// Disabled leaves the table alone altogether.
	Disabled bool
	Policy
	// Origin is where the entry stands.
	Origin Origin
	// Set names the keys this entry gives ("compact.target_file_size",
	// "disabled"), each with where it was read.
	Set map[string]Origin
}

// PathStyle says whether the bucket is addressed in the path: as URLStyle
// says, otherwise whenever there is an endpoint.
func (s *S3) PathStyle() bool {
	if s.URLStyle != "" {
		return s.URLStyle == urlStylePath
	}
	return s.Endpoint != ""
}

// UseGCSInterop says whether requests are signed the way Google's S3 interop
// needs: as GCSInterop says, otherwise when the endpoint is Google's.
func (s *S3) UseGCSInterop() bool {
	if s.GCSInterop != nil {
		return *s.GCSInterop
	}
	return hostWithin(string(s.Endpoint), "googleapis.com")
}

// Default returns a Config with every default and nothing else. It is not
// valid until the catalog is named.
func Default() *Config {
	c := &Config{Form: FormOwn, origins: map[string]Origin{}}
	for _, k := range allKeys() {
		if k.optional == nil {
			k.mustDefault(k.field(c))
		}
	}
	return c
}

// Origin returns where the value of a key, such as "claim.mode", came from.
func (c *Config) Origin(key string) Origin { return c.origins[key] }

// HasCatalog says whether a catalog is configured.
func (c *Config) HasCatalog() bool { return c.Catalog.URI != "" || c.Catalog.Type == catalogGlue }
