package catalog

import (
	"context"
	"fmt"
	"net/url"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
)

const propSnapshotMode = "snapshot-loading-mode"

func (c *Catalog) openREST(ctx context.Context, o Options) error {
	transport, err := newTransport(o.Catalog)
	if err != nil {
		return err
	}
	c.transport, c.closers = transport, append(c.closers, transport.close)
	opts, err := c.restOptions(ctx, o)
	if err != nil {
		return err
	}
	opts = append(opts, rest.WithCustomTransport(transport))
	ctx, cancel := c.within(ctx)
	defer cancel()
	inner, err := promptly(ctx,
		func() (*rest.Catalog, error) { return rest.NewCatalog(ctx, o.Catalog.Name, o.Catalog.URI, opts...) },
		func(late *rest.Catalog) { _ = late.Close() }) // nobody is left to tell
	if err != nil {
		return err
	}
	c.inner = inner // only now: a nil pointer would make an interface that is not nil
	return nil
}

func (c *Catalog) restOptions(ctx context.Context, o Options) ([]rest.Option, error) {
	s := o.Catalog
	props := iceberg.Properties{}
	for k, v := range s.Properties {
		props[k] = v
	}
	// A server that sends only the snapshots of refs would make every other
	// file of the table's history look like nobody's.
	props[propSnapshotMode] = string(rest.SnapshotModeAll)
	opts := []rest.Option{rest.WithAdditionalProps(props)}
	if s.Warehouse != "" {
		opts = append(opts, rest.WithWarehouseLocation(s.Warehouse))
	}
	if o.UserAgent != "" {
		opts = append(opts, rest.WithHeaders(map[string]string{"User-Agent": o.UserAgent}))
	}
	if s.Credential != "" {
		opts = append(opts, rest.WithCredential(s.Credential))
	}
	if s.Token != "" {
		opts = append(opts, rest.WithOAuthToken(s.Token))
	}
	if s.Scope != "" {
		opts = append(opts, rest.WithScope(s.Scope))
	}
	if s.OAuth2ServerURI != "" {
		u, err := url.Parse(s.OAuth2ServerURI)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("the OAuth2 server URI %q is not a URL", s.OAuth2ServerURI)
		}
		opts = append(opts, rest.WithAuthURI(u))
	}
	if s.SigV4 {
		cfg, err := c.store.AWSConfig(ctx)
		if err != nil {
			return nil, fmt.Errorf("load signing credentials: %w", err)
		}
		opts = append(opts, rest.WithSigV4RegionSvc(s.SigningRegion, s.SigningName), rest.WithAwsConfig(cfg))
	}
	return opts, nil
}
