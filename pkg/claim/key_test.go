package claim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

func TestKeyText(t *testing.T) {
	for _, tc := range []struct {
		key        claim.Key
		text, cold string
	}{
		{claim.Key{Realm: "analytics", Namespace: []string{"sales"}, Table: "orders"}, `analytics"sales"."orders"`, `"ice"."sales"."orders"`},
		{claim.Key{Namespace: []string{"a", "b.c"}, Table: `or"ders`}, `"a"."b.c"."or""ders"`, `"ice"."a"."b.c"."or""ders"`},
		{claim.Key{Realm: "käse", Namespace: []string{"@ts"}, Table: "9x-y z 🧀"}, `käse"@ts"."9x-y z 🧀"`, `"ice"."@ts"."9x-y z 🧀"`},
	} {
		require.NoError(t, tc.key.Validate())
		require.Equal(t, tc.text, tc.key.String())
		require.Equal(t, tc.cold, tc.key.ColdFront(""))
	}
	require.Equal(t, `"lake"."sales"."orders"`, claim.Key{Namespace: []string{"sales"}, Table: "orders"}.ColdFront("lake"))
}

func TestKeyValidateReportsEverything(t *testing.T) {
	err := claim.Key{Realm: `a"b`, Namespace: []string{""}, Table: ""}.Validate()
	require.ErrorContains(t, err, "double quote")
	require.ErrorContains(t, err, "namespace level is empty")
	require.ErrorContains(t, err, "table name is empty")
}

// FuzzKeyText checks that no two different keys are locked under one text.
func FuzzKeyText(f *testing.F) {
	f.Add("r", "a", "b", "r", `a"."b`, "")
	f.Add("r", `a"`, "b", `r"a"`, "b", "")
	f.Fuzz(func(t *testing.T, realm1, ns1, table1, realm2, ns2, table2 string) {
		one := claim.Key{Realm: realm1, Namespace: []string{ns1}, Table: table1}
		two := claim.Key{Realm: realm2, Namespace: []string{ns2}, Table: table2}
		if one.Validate() != nil || two.Validate() != nil {
			return
		}
		same := realm1 == realm2 && ns1 == ns2 && table1 == table2
		require.Equal(t, same, one.String() == two.String())
	})
}
