package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUnknownNamesInTheEnvironmentAreNamedWithTheNearest(t *testing.T) {
	all := map[string]string{
		"COMPACTOR_CLAIM_MOD": "none", "COMPACTOR_CATALOG_TOKEN_FILES": "/x", "COMPACTOR_ZZZZZZZZZZZZ": "1", "COMPACTOR_CLAIM_POOLR": "",
		"COMPACTOR_CLAIM_MODE": "file", "COMPACTOR_CONFIG": "c.yaml", "COMPACTOR_SERVICE_HOST": "10.0.0.1", "COMPACTOR_PORT_80_TCP": "x", "HOME": "/",
	}
	s := source(minimal)
	s.Env = env(all)
	assert.Empty(t, mustLoad(t, s).Warnings, "without a list there is nothing to look at")
	for name := range all {
		s.Environ = append(s.Environ, name)
	}
	s.Environ = append(s.Environ, "COMPACTOR_HUSH=hush")
	assert.Equal(t, []string{
		"environment COMPACTOR_CATALOG_TOKEN_FILES: is no setting and has no effect; did you mean COMPACTOR_CATALOG_TOKEN_FILE?",
		"environment COMPACTOR_CLAIM_MOD: is no setting and has no effect; did you mean COMPACTOR_CLAIM_MODE?",
		"environment COMPACTOR_ZZZZZZZZZZZZ: is no setting and has no effect",
	}, mustLoad(t, s).Warnings)
}
