package main

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"compactor/internal/testenv"
)

// settings say where the servers are. They come from the SMOKE_ names that
// scripts/smoke.sh lists, or, without SMOKE_CATALOG_URI, from the state file that
// COMPACTOR_TESTENV names.
type settings struct {
	CatalogURI, Credential, Warehouse          string
	S3Endpoint, S3Region, AccessKey, SecretKey string
	Postgres                                   string
}

func readSettings(getenv func(string) string) (settings, error) {
	s := settings{
		CatalogURI: getenv("SMOKE_CATALOG_URI"), Credential: getenv("SMOKE_CATALOG_CREDENTIAL"), Warehouse: getenv("SMOKE_WAREHOUSE"),
		S3Endpoint: getenv("SMOKE_S3_ENDPOINT"), S3Region: getenv("SMOKE_S3_REGION"),
		AccessKey: getenv("SMOKE_S3_ACCESS_KEY_ID"), SecretKey: getenv("SMOKE_S3_SECRET_ACCESS_KEY"),
		Postgres: getenv("SMOKE_POSTGRES"),
	}
	if s.CatalogURI == "" {
		state, err := testenv.ReadState(getenv(testenv.StateVariable))
		if err != nil {
			return s, fmt.Errorf("find servers, set SMOKE_CATALOG_URI or %s: %w", testenv.StateVariable, err)
		}
		lake := state.Lake
		s = settings{
			CatalogURI: lake.CatalogURI, Credential: lake.AccessKey + ":" + lake.SecretKey, Warehouse: lake.Warehouse,
			S3Endpoint: lake.S3Endpoint, S3Region: lake.Region, AccessKey: lake.AccessKey, SecretKey: lake.SecretKey,
			Postgres: state.PostgresDSN,
		}
	}
	if s.S3Region == "" {
		s.S3Region = "us-east-1"
	}

	return s, nil
}

// file is the program's configuration file; secrets are not in it.
func (s settings) file(claims string) ([]byte, error) {
	type section = map[string]any
	doc := section{"catalog": section{"type": "rest", "uri": s.CatalogURI, "warehouse": s.Warehouse}}
	if s.AccessKey != "" {
		s3 := section{"region": s.S3Region, "access_key_id": s.AccessKey}
		if s.S3Endpoint != "" {
			s3["endpoint"], s3["url_style"] = s.S3Endpoint, "path"
		}
		doc["storage"] = section{"s3": s3}
	}
	doc["claim"] = section{"mode": "advisory"}
	if s.Postgres == "" {
		doc["claim"] = section{"mode": "file", "dir": claims, "realm": "smoke"}
	}
	raw, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}

	return raw, nil
}

// secrets are the environment of the program.
func (s settings) secrets() []string {
	var out []string
	for name, value := range map[string]string{
		"COMPACTOR_CATALOG_CREDENTIAL":           s.Credential,
		"COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY": s.SecretKey,
		"COMPACTOR_CLAIM_POSTGRES":               s.Postgres,
	} {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}

	return out
}
