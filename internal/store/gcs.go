package store

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

// gcsFactory reaches Google Cloud Storage by its own protocol.
func (s *Store) gcsFactory(_ context.Context, props map[string]string) (Backend, error) {
	o := s.opts.GCS
	transport := s.blobTransport()
	return s.blobBackend(transport.own.now, func(ctx context.Context, bucket string) (*blob.Bucket, error) {
		client, err := gcsClient(ctx, o, props, transport)
		if err != nil {
			return nil, err
		}
		conf := &gcsblob.Options{}
		setIfEmpty(&o.Endpoint, props["gcs.service.host"])
		setIfEmpty(&o.Endpoint, props["gcs.endpoint"])
		if o.Endpoint != "" {
			conf.ClientOptions = append(conf.ClientOptions, option.WithEndpoint(o.Endpoint))
		}
		return gcsblob.OpenBucket(ctx, client, bucket, conf)
	}), nil
}

// gcsClient finds the credentials: none if told so, the operator's key, a token
// that the catalog vended, or Google's default chain.
func gcsClient(ctx context.Context, o GCSOptions, props map[string]string, transport http.RoundTripper) (*gcp.HTTPClient, error) {
	var source oauth2.TokenSource
	switch {
	case o.NoAuth, o.CredentialsFile == "" && isTrue(props["gcs.no-auth"]):
		return gcp.NewAnonymousHTTPClient(transport), nil
	case o.CredentialsFile != "":
		key, err := os.ReadFile(o.CredentialsFile)
		if err != nil {
			return nil, fmt.Errorf("read key of the service account: %w", err)
		}
		creds, err := google.CredentialsFromJSONWithType(ctx, key, google.ServiceAccount, gcsScope)
		if err != nil {
			return nil, fmt.Errorf("read key of the service account %s: %w", o.CredentialsFile, err)
		}
		source = creds.TokenSource
	case props["gcs.oauth2.token"] != "":
		token := &oauth2.Token{AccessToken: props["gcs.oauth2.token"]}
		if ms, err := strconv.ParseInt(props["gcs.oauth2.token-expires-at"], 10, 64); err == nil {
			token.Expiry = time.UnixMilli(ms)
		}
		source = oauth2.StaticTokenSource(token)
	default:
		creds, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, fmt.Errorf("find Google credentials (set storage.gcs.credentials_file, or no_auth for public data): %w", err)
		}
		source = creds.TokenSource
	}
	client, err := gcp.NewHTTPClient(transport, source)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}
