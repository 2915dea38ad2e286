package config

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
)

// referenceText is the reference with places for the tables of keys.
//
//go:embed reference.md.tmpl
var referenceText string

// Reference writes docs/configuration.md: what the forms of a file are and
// every key with its default, range, name in the environment and meaning. It
// returns the error of the writer.
func Reference(w io.Writer) error {
	t, err := template.New("reference").Parse(referenceText)
	if err != nil {
		return fmt.Errorf("read the reference's template: %w", err)
	}
	data := map[string]string{
		"Catalog":   table(within(allKeys(), "catalog."), true),
		"S3":        table(within(allKeys(), "storage.s3."), true),
		"Azure":     table(within(allKeys(), "storage.azure."), true),
		"GCS":       table(within(allKeys(), "storage.gcs."), true),
		"Storage":   table(within(allKeys(), "storage.override"), true),
		"Claim":     table(within(allKeys(), "claim."), true),
		"Policy":    table(referencePolicyKeys(), false),
		"Metrics":   table(within(allKeys(), "metrics."), true),
		"ColdFront": coldFrontTable(),
	}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("write the reference: %w", err)
	}
	return nil
}

// within returns the keys whose names begin with prefix.
func within(keys []*key, prefix string) []*key {
	var out []*key
	for _, k := range keys {
		if strings.HasPrefix(k.name, prefix) {
			out = append(out, k)
		}
	}
	return out
}

// referencePolicyKeys returns the policy keys by their names within a policy.
func referencePolicyKeys() []*key {
	keys := policyKeys()
	for _, k := range keys {
		inPolicy := k.policy
		k.field = func(*Config) any { return inPolicy(new(Policy)) }
	}
	return keys
}

// table writes keys as a Markdown table; the last column is the name in the
// environment, or the table properties of policy keys.
func table(keys []*key, env bool) string {
	var b strings.Builder
	last := "Environment"
	if !env {
		last = "Table property"
	}
	fmt.Fprintf(&b, "| Key | Kind | Default | Meaning | %s |\n|---|---|---|---|---|\n", last)
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.name, kind(k.field(&Config{})), k.defaultText(), k.meaning(), k.names(env))
	}
	return strings.TrimRight(b.String(), "\n")
}

// defaultText is the default as the reference shows it.
func (k *key) defaultText() string {
	switch {
	case k.note != "":
		return k.note
	case k.def == "0" && k.zero != "":
		return k.zero
	case k.def != "":
		return "`" + k.def + "`"
	}
	return "none"
}

// meaning is the sentence of the key with its words or range.
func (k *key) meaning() string {
	out := k.doc
	if len(k.enum) > 0 {
		out += " One of `" + strings.Join(k.enum, "`, `") + "`."
	}
	for _, word := range sortedKeys(k.refused) {
		out += " `" + word + "` is refused."
	}
	if k.low != "" {
		out += fmt.Sprintf(" From %s to %s", k.low, k.high)
		if k.zero != "" {
			out += ", or 0: " + k.zero
		}
		out += "."
	}
	if k.hasFile() {
		out += fmt.Sprintf(" `%s` names a file that holds it.", k.name+fileSuffix)
	}
	return out
}

// names lists the environment names of the key, or its table properties.
func (k *key) names(env bool) string {
	list := []string{propertyName(k.name)}
	extra := k.properties
	if env {
		list, extra = []string{envName(k.name)}, k.standard
	}
	return "`" + strings.Join(append(list, extra...), "`, `") + "`"
}

// coldFrontTable writes which key of ColdFront's stands for which of ours.
func coldFrontTable() string {
	var b strings.Builder
	b.WriteString("| ColdFront | Here |\n|---|---|\n")
	keys := coldFrontKeys()
	for _, theirs := range sortedKeys(keys) {
		ours := "`" + keys[theirs] + "`"
		if keys[theirs] == "" {
			ours = "`http://` or `https://` in front of the endpoint"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", theirs, ours)
	}
	return strings.TrimRight(b.String(), "\n")
}
