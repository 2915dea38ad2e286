package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Addressing styles of an S3 endpoint.
const (
	StyleAuto    = ""      // path with an endpoint of one's own, else virtual-hosted
	StylePath    = "path"  // https://endpoint/bucket/key
	StyleVirtual = "vhost" // https://bucket.endpoint/key
)

// S3Options says how to reach an S3 store. What is set here is the operator's
// word and wins over what a catalog or a table's configuration sends; what
// is empty is filled from there, and then from AWS' default chain.
type S3Options struct {
	Endpoint        string // URL with scheme; empty: AWS
	Region          string // empty: from the environment; us-east-1 with an endpoint
	AccessKeyID     string // with SecretAccessKey; empty: vended or default chain
	SecretAccessKey string
	SessionToken    string // only together with the keys
	Profile         string // a profile of the shared AWS configuration
	URLStyle        string // one of the Style constants
	CACert          string // file with PEM certificates to trust besides the system's
	// Interop signs as Google's S3 interop and its relatives need it: the
	// Accept-Encoding header is left out of the signature, and checksums are
	// sent only where a request requires one.
	Interop bool
	// MaxAttempts is how often one request is tried, from 1; 0 means 6.
	MaxAttempts int
	// Stall is how long a connection may make no progress before it is given
	// up; 0 means one minute.
	Stall time.Duration
}

// AzureOptions says how to reach Azure Data Lake Storage. What is set here wins
// over what a catalog sends; without either, Azure's default chain is used.
type AzureOptions struct {
	ConnectionString string
	AccountName      string // with AccountKey
	AccountKey       string
	SASToken         string
	Endpoint         string // URL of the account; empty: as the location says
	ManagedIdentity  bool
	ClientID         string // of a user-assigned managed identity
}

// GCSOptions says how to reach Google Cloud Storage by its own protocol.
type GCSOptions struct {
	Endpoint        string // URL; empty: Google's
	CredentialsFile string // JSON key; empty: a vended token, or the default chain
	NoAuth          bool   // send no credentials, for emulators and public data
}

// Options configures a Store.
type Options struct {
	S3    S3Options
	Azure AzureOptions
	GCS   GCSOptions
	// SmallObject is the size up to which an object is read whole in one
	// request, in bytes; 0 means 8 MiB. An open larger file holds that much too.
	SmallObject int64
	// PartSize is the size of a part of a multipart upload and the largest
	// object sent as one PUT, in bytes, from 5 MiB; 0 means 8 MiB. Objects may
	// have 10,000 parts.
	PartSize int64
	// Concurrency is how many parts one writer has in flight; 0 means 3. A
	// writer holds at most Concurrency+1 parts in memory.
	Concurrency int
	// RequestsPerSecond bounds the requests that are sent to object stores of every
	// kind, repeated ones included; 0 sets no limit. Up to a second's worth may go
	// out at once. Local folders are not bounded.
	RequestsPerSecond int
	// BytesPerSecond bounds what goes to and comes from object stores, headers and
	// encryption included, over all connections; 0 sets no limit, and less than
	// MinBytesPerSecond is refused. Up to a quarter of a second's worth may go at
	// once. Local folders are not bounded.
	BytesPerSecond int64
	// Schemes adds backends, or replaces them, by scheme.
	Schemes map[string]Factory
	// Wrap, when set, is put around every backend: injected faults, tracing.
	Wrap     func(Backend) Backend
	Counters *Counters // nil: the store counts for itself
	Logger   zerolog.Logger
}

const (
	defaultSmallObject = 8 << 20
	defaultPartSize    = 8 << 20
	minPartSize        = 5 << 20
	maxParts           = 10_000
	defaultConcurrency = 3
	defaultAttempts    = 6
	defaultStall       = time.Minute
)

// Validate reports everything that is wrong with the options, joined.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if (o.S3.AccessKeyID == "") != (o.S3.SecretAccessKey == "") {
		bad("s3: the access key and the secret key have to be given together")
	}
	if o.S3.SessionToken != "" && o.S3.AccessKeyID == "" {
		bad("s3: a session token needs the access key it belongs to")
	}
	if e := o.S3.Endpoint; e != "" && !strings.HasPrefix(e, "http://") && !strings.HasPrefix(e, "https://") {
		bad("s3: the endpoint %q has to begin with http:// or https://", e)
	}
	switch o.S3.URLStyle {
	case StyleAuto, StylePath, StyleVirtual:
	default:
		bad("s3: the URL style %q is neither %q nor %q", o.S3.URLStyle, StylePath, StyleVirtual)
	}
	if o.PartSize != 0 && o.PartSize < minPartSize {
		bad("the part size %d is below S3's minimum of %d bytes", o.PartSize, minPartSize)
	}
	if o.SmallObject < 0 || o.Concurrency < 0 || o.RequestsPerSecond < 0 || o.S3.MaxAttempts < 0 || o.S3.Stall < 0 {
		bad("sizes, concurrency, attempts and times cannot be negative")
	}
	if o.BytesPerSecond != 0 && o.BytesPerSecond < MinBytesPerSecond {
		bad("a bandwidth of %d bytes per second is below the minimum of %d", o.BytesPerSecond, MinBytesPerSecond)
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.SmallObject == 0 {
		o.SmallObject = defaultSmallObject
	}
	if o.PartSize == 0 {
		o.PartSize = defaultPartSize
	}
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.S3.MaxAttempts == 0 {
		o.S3.MaxAttempts = defaultAttempts
	}
	if o.S3.Stall == 0 {
		o.S3.Stall = defaultStall
	}
	if o.Counters == nil {
		o.Counters = &Counters{}
	}
	return o
}

// Names of the FileIO properties that are understood. They are the ones of the
// Iceberg specification's clients.
const (
	propEndpoint       = "s3.endpoint"
	propRegion         = "s3.region"
	propClientRegion   = "client.region"
	propAccessKeyID    = "s3.access-key-id"
	propSecretKey      = "s3.secret-access-key"
	propSessionToken   = "s3.session-token"
	propTokenExpiresAt = "s3.session-token-expires-at-ms"
	propPathStyle      = "s3.path-style-access"
	propVirtualStyle   = "s3.force-virtual-addressing"
	propCompat         = "s3.compat-mode"
	propRemoteSigning  = "s3.remote-signing-enabled"
	propDeleteEnabled  = "s3.delete-enabled"
)

// ErrRemoteSigning is returned where a catalog wants to sign every request to
// the store itself.
var ErrRemoteSigning = errors.New("the catalog demands remote signing (s3.remote-signing-enabled=true), which is not supported: " +
	"let it vend credentials, or set the store's own keys")

// fill completes o from FileIO properties. Keys and token are one unit: they
// come from one source, never mixed. Remote signing is an error unless
// the operator gave keys of their own.
func (o S3Options) fill(props map[string]string) (S3Options, error) {
	if isTrue(props[propRemoteSigning]) && o.AccessKeyID == "" {
		return o, ErrRemoteSigning
	}
	setIfEmpty(&o.Endpoint, props[propEndpoint])
	setIfEmpty(&o.Region, props[propRegion])
	setIfEmpty(&o.Region, props[propClientRegion])
	if o.AccessKeyID == "" && props[propAccessKeyID] != "" {
		o.AccessKeyID, o.SecretAccessKey = props[propAccessKeyID], props[propSecretKey]
		o.SessionToken = props[propSessionToken]
		if o.SecretAccessKey == "" {
			return o, fmt.Errorf("the property %s came without %s", propAccessKeyID, propSecretKey)
		}
	}
	if o.URLStyle == StyleAuto {
		switch {
		case isTrue(props[propVirtualStyle]):
			o.URLStyle = StyleVirtual
		case isTrue(props[propPathStyle]), props[propVirtualStyle] != "":
			o.URLStyle = StylePath
		case props[propPathStyle] != "":
			o.URLStyle = StyleVirtual
		}
	}
	o.Interop = o.Interop || isTrue(props[propCompat])
	return o, nil
}

func setIfEmpty(dst *string, v string) {
	if *dst == "" {
		*dst = v
	}
}

func isTrue(v string) bool {
	b, err := strconv.ParseBool(strings.ToLower(v))
	return err == nil && b
}

func isFalse(v string) bool {
	b, err := strconv.ParseBool(strings.ToLower(v))
	return err == nil && !b
}

// expiry reads when vended credentials end; zero when nobody said.
func expiry(props map[string]string) time.Time {
	ms, err := strconv.ParseInt(props[propTokenExpiresAt], 10, 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
