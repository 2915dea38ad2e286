package store

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
)

// azureFactory reaches Azure Data Lake Storage through its blob endpoint.
func (s *Store) azureFactory(_ context.Context, props map[string]string) (Backend, error) {
	transport := s.blobTransport()
	conf := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}}
	return s.blobBackend(transport.own.now, func(ctx context.Context, authority string) (*blob.Bucket, error) {
		client, err := azureClient(s.opts.Azure, props, authority, conf)
		if err != nil {
			return nil, err
		}
		return azureblob.OpenBucket(ctx, client, nil)
	}), nil
}

// azurePlace is what the authority of a location says: container@account.host.
type azurePlace struct {
	container, account, host string
}

func parseAzure(authority string) (azurePlace, error) {
	name, host, found := strings.Cut(authority, "@")
	account, _, _ := strings.Cut(host, ".")
	if !found || name == "" || account == "" {
		return azurePlace{}, fmt.Errorf("%q is not of the form container@account.dfs.core.windows.net", authority)
	}
	return azurePlace{container: name, account: account, host: host}, nil
}

// url is the address of the container; the data lake's endpoint has a twin that
// speaks the blob protocol.
func (p azurePlace) url(endpoint string) string {
	if endpoint == "" {
		endpoint = "https://" + strings.Replace(p.host, ".dfs.", ".blob.", 1)
	}
	return strings.TrimRight(endpoint, "/") + "/" + p.container
}

// azureClient finds the credentials: the operator's, those the catalog vended,
// or Azure's default chain.
func azureClient(o AzureOptions, props map[string]string, authority string, conf *container.ClientOptions) (*container.Client, error) {
	p, err := parseAzure(authority)
	if err != nil {
		return nil, err
	}
	if o == (AzureOptions{Endpoint: o.Endpoint}) {
		o = vendedAzure(o, props, p)
	}
	url := p.url(o.Endpoint)
	var client *container.Client
	switch {
	case o.ConnectionString != "":
		client, err = container.NewClientFromConnectionString(o.ConnectionString, p.container, conf)
	case o.AccountKey != "":
		var key *container.SharedKeyCredential
		if key, err = container.NewSharedKeyCredential(o.AccountName, o.AccountKey); err == nil {
			client, err = container.NewClientWithSharedKeyCredential(url, key, conf)
		}
	case o.SASToken != "":
		client, err = container.NewClientWithNoCredential(url+"?"+strings.TrimPrefix(o.SASToken, "?"), conf)
	default:
		var token azcore.TokenCredential
		if token, err = azureToken(o); err == nil {
			client, err = container.NewClient(url, token, conf)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make client for the Azure account %s: %w", p.account, err)
	}
	return client, nil
}

func azureToken(o AzureOptions) (azcore.TokenCredential, error) {
	if !o.ManagedIdentity {
		return azidentity.NewDefaultAzureCredential(nil) //nolint:wrapcheck // the caller names the account
	}
	opts := &azidentity.ManagedIdentityCredentialOptions{}
	if o.ClientID != "" {
		opts.ID = azidentity.ClientID(o.ClientID)
	}
	return azidentity.NewManagedIdentityCredential(opts) //nolint:wrapcheck // the caller names the account
}

// vendedAzure takes what a catalog sent for the account.
func vendedAzure(o AzureOptions, props map[string]string, p azurePlace) AzureOptions {
	for _, name := range []string{p.host, p.account} {
		setIfEmpty(&o.SASToken, props["adls.sas-token."+name])
		setIfEmpty(&o.ConnectionString, props["adls.connection-string."+name])
	}
	o.AccountName, o.AccountKey = props["adls.auth.shared-key.account.name"], props["adls.auth.shared-key.account.key"]
	o.ManagedIdentity = isTrue(props["adls.auth.managed-identity.enabled"])
	o.ClientID = props["adls.client-id"]
	return o
}
