package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/apache/iceberg-go/catalog/glue"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

const (
	glueUpdate = "UpdateTable"
	glueTarget = "X-Amz-Target"
)

func (c *Catalog) openGlue(ctx context.Context, o Options) error {
	props := o.Catalog.Properties
	cfg, err := c.store.AWSConfig(ctx)
	if err != nil {
		return fmt.Errorf("load Glue credentials: %w", err)
	}
	if region := props[glue.Region]; region != "" {
		cfg.Region = region
	}
	if cfg.Region == "" {
		return errors.New("no region is set: set glue.region or AWS_REGION")
	}
	if key := props[glue.AccessKeyID]; key != "" {
		cfg.Credentials = aws.NewCredentialsCache(
			credentials.NewStaticCredentialsProvider(key, props[glue.SecretAccessKey], props[glue.SessionToken]))
	}
	endpoint := o.Catalog.URI
	if endpoint == "" {
		endpoint = props[glue.Endpoint]
	}
	if endpoint != "" {
		cfg.BaseEndpoint = aws.String(endpoint)
	}
	t, err := newTransport(o.Catalog)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, t.close)
	cfg.HTTPClient = &glueClient{t: t}
	cfg.Retryer = func() aws.Retryer { return onceOnly{retry.NewStandard()} }

	all := glue.AwsProperties{}
	maps.Copy(all, props)
	if o.Catalog.Warehouse != "" {
		all["warehouse"] = o.Catalog.Warehouse
	}
	inner, err := glue.NewCatalog(glue.WithAwsConfig(cfg), glue.WithAwsProperties(all))
	if err != nil {
		return err //nolint:wrapcheck // Open names the catalog
	}
	c.inner = inner
	return nil
}

// onceOnly is the SDK's retryer, except that UpdateTable is never sent again: a
// repetition of a request that was carried out fails on the version
// it has itself made, and would pass for somebody else's commit.
type onceOnly struct{ *retry.Standard }

var errNotRepeated = errors.New("UpdateTable is sent once")

// GetRetryToken refuses a token to UpdateTable.
func (r onceOnly) GetRetryToken(ctx context.Context, err error) (func(error) error, error) {
	if awsmiddleware.GetOperationName(ctx) == glueUpdate {
		return nil, errNotRepeated
	}
	return r.Standard.GetRetryToken(ctx, err) //nolint:wrapcheck // the SDK's own answer
}

// RetryDelay is the SDK's.
func (r onceOnly) RetryDelay(attempt int, err error) (time.Duration, error) {
	return r.Standard.RetryDelay(attempt, err) //nolint:wrapcheck // the SDK's own answer
}

// glueClient bounds every request and watches the one that commits.
type glueClient struct{ t *transport }

// Do sends one request.
func (g *glueClient) Do(req *http.Request) (*http.Response, error) {
	a := attemptOf(req.Context())
	if a == nil || !strings.HasSuffix(req.Header.Get(glueTarget), "."+glueUpdate) {
		return g.t.bounded(g.t.normal, req)
	}
	return g.t.commitOnce(a, req)
}
