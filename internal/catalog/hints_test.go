package catalog

import (
	"fmt"
	"testing"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/stretchr/testify/require"
)

// A token server that is silent says nothing about the credentials. The client
// keeps the text of the failure alone, and net/http has two wordings for it.
func TestSilenceIsNoRefusal(t *testing.T) {
	c := &Catalog{}
	for _, text := range []string{
		"context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
		"net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
	} {
		err := c.hint(fmt.Errorf("%w: Post %q: %s", rest.ErrOAuthError, "http://h/v1/oauth/tokens", text))
		require.ErrorContains(t, err, "did not answer in time")
		require.NotContains(t, err.Error(), "catalog.credential")
	}
	require.ErrorContains(t, c.hint(fmt.Errorf("%w: invalid_client", rest.ErrOAuthError)), "catalog.credential")
}
