package catalog

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/rs/zerolog"

	"compactor/internal/store"
)

// Types of catalogs. The last two are known and refused.
const (
	TypeREST   = "rest"
	TypeSQL    = "sql"
	TypeGlue   = "glue"
	TypeHive   = "hive"
	TypeHadoop = "hadoop"
)

// DefaultTimeout bounds a request to the catalog that has no deadline of its own.
const DefaultTimeout = time.Minute

// Settings says which catalog to open.
type Settings struct {
	Type            string // one of the Type constants; empty means rest
	Name            string // the catalog's name; SQL keeps it in every row. Empty means "default"
	URI             string // REST: base URL; SQL: file path or sqlite: URI; Glue: endpoint, normally empty
	Warehouse       string // REST: the server's warehouse; SQL and Glue: location of new tables
	Credential      string // REST: id:secret for OAuth2 client credentials
	Token           string // REST: a bearer token, used as it is
	OAuth2ServerURI string // REST: token endpoint; empty: the catalog's own
	Scope           string // REST: OAuth2 scope; empty: "catalog"
	SigV4           bool   // REST: sign requests with AWS credentials
	SigningName     string // REST: service to sign for; empty: "execute-api"
	SigningRegion   string // REST: region to sign for; empty: the AWS configuration's
	CACert          string // REST: file with PEM certificates to trust besides the system's
	// Timeout bounds each request that has no earlier deadline; 0 means DefaultTimeout.
	Timeout time.Duration
	// Properties are passed to the catalog client and to the store.
	Properties map[string]string
}

// Options is what Open needs.
type Options struct {
	Catalog   Settings
	Storage   store.Options
	Counters  *store.Counters // where the store counts; nil: Storage's, or its own
	Logger    zerolog.Logger
	UserAgent string // sent to REST catalogs; empty: the client library's
}

// ErrNoCAS refuses catalogs that cannot swap metadata atomically.
var ErrNoCAS = errors.New("the catalog has no compare-and-swap")

// Validate reports everything that is wrong with the settings, joined.
func (s Settings) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch s.Type {
	case TypeREST, "":
		if u, err := url.Parse(s.URI); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			bad("catalog: the URI %q of a REST catalog has to be an http or https URL", s.URI)
		}
		if s.Credential != "" && s.Token != "" {
			bad("catalog: give a credential or a token, not both")
		}
		if s.SigV4 && (s.Credential != "" || s.Token != "") {
			bad("catalog: SigV4 does not go together with a credential or a token")
		}
	case TypeSQL:
		if s.URI == "" {
			bad("catalog: a SQL catalog needs the path of its database as URI")
		}
	case TypeGlue:
	case TypeHive:
		errs = append(errs, fmt.Errorf("catalog type hive: %w: the metastore takes a plain alter of the table, "+
			"without comparing what it replaces; put a REST catalog in front of it", ErrNoCAS))
	case TypeHadoop:
		errs = append(errs, fmt.Errorf("catalog type hadoop: %w: it renames files, which an object store "+
			"does not do atomically; register the tables in another catalog", ErrNoCAS))
	default:
		bad("catalog: the type %q is not one of rest, sql, glue", s.Type)
	}
	if s.Properties["rest.tls.skip-verify"] == "true" {
		bad("catalog: rest.tls.skip-verify is not supported: name the server's CA certificate instead")
	}
	if s.Timeout < 0 {
		bad("catalog: the timeout cannot be negative")
	}
	return errors.Join(errs...)
}
