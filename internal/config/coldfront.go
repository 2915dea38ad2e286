package config

import (
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
)

// coldFrontKeys maps the keys of ColdFront's deployment YAML to ours. Keys of
// the endpoint and the address of the catalog are translated as well.
func coldFrontKeys() map[string]string {
	return map[string]string{
		"postgres.dsn":                keyClaimPostgres,
		"iceberg.warehouse":           "catalog.warehouse",
		"iceberg.lakekeeper_endpoint": "catalog.uri",
		"s3.endpoint":                 keyS3Endpoint,
		"s3.region":                   keyS3Region,
		"s3.access_key":               keyS3AccessKeyID,
		"s3.secret_key":               keyS3SecretKey,
		"s3.use_ssl":                  "",
		"s3.url_style":                "storage.s3.url_style",
		"azure.connection_string":     "storage.azure.connection_string",
	}
}

// coldFrontDefaults are the defaults of ColdFront's command line where they
// are not ours.
func coldFrontDefaults() map[string]string {
	return map[string]string{
		"defaults.expire.older_than":             "168h",
		"defaults.compact.delete_file_threshold": "5",
	}
}

// looksLikeColdFront says whether the file is ColdFront's: it has one of the
// sections only ColdFront has, and not the one section every file of the own
// form has.
func looksLikeColdFront(root *yaml.Node) bool {
	coldFront, own := false, false
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch root.Content[i].Value {
		case "postgres", "iceberg", "s3", "azure", "archiver":
			coldFront = true
		case "catalog":
			own = true
		}
	}
	return coldFront && !own
}

// coldFront reads ColdFront's deployment YAML. Keys of its other programs are
// passed over; a key that is nearly one of ours gives a warning, and a section
// of the own form is a violation, because it would have no effect.
func (r *reader) coldFront(root *yaml.Node, f *file) {
	f.form = FormColdFront
	f.defaults = coldFrontDefaults()
	found := map[string]setting{}
	r.pairs(root, "", func(section string, k, v *yaml.Node) {
		v = resolve(v)
		switch section {
		case "storage", "claim", "defaults", "tables", "metrics":
			r.violations.add(section, r.at(k, section), "belongs to the own form and has no effect in a ColdFront deployment file; use the environment (%s…) or a file of the own form",
				envName(section)+"_")
		case "postgres", "iceberg", "s3", "azure":
			r.coldFrontSection(section, v, found, f)
		}
	})
	r.translate(found, f)
}

// coldFrontSection collects the known keys of one section.
func (r *reader) coldFrontSection(section string, v *yaml.Node, found map[string]setting, f *file) {
	if isNull(v) {
		return
	}
	if v.Kind != yaml.MappingNode {
		r.violations.add(section, r.at(v, section), "must be a section with keys of its own")
		return
	}
	known := coldFrontKeys()
	var names []string
	for full := range known {
		if name, ok := strings.CutPrefix(full, section+"."); ok {
			names = append(names, name)
		}
	}
	r.pairs(v, section, func(name string, k, v *yaml.Node) {
		full := join(section, name)
		if _, ok := known[full]; ok {
			if s, ok := r.value(nil, full, resolve(v)); ok {
				found[full] = s
			}
			return
		}
		if near := nearest(name, names); near != "" && name != "namespace" {
			f.warnings = append(f.warnings, Violation{Key: full, Origin: r.at(k, full),
				Message: "is not a key of this program and is ignored; did you mean " + join(section, near) + "?"}.String())
		}
	})
}

// translate turns ColdFront's values into ours and adds what the form implies.
func (r *reader) translate(found map[string]setting, f *file) {
	for _, name := range sortedKeys(found) {
		if ours := coldFrontKeys()[name]; ours != "" {
			f.settings[ours] = found[name]
			if section, _, ok := strings.Cut(strings.TrimPrefix(ours, "storage."), "."); ok && strings.HasPrefix(ours, "storage.") {
				f.sections["storage."+section] = true
			}
		}
	}
	f.implied = map[string]setting{}
	imply := func(name, text string) {
		f.implied[name] = setting{text: text, origin: Origin{Kind: FromFile, Name: name, Path: r.path}}
	}
	imply(keyClaimMode, modeColdFront)
	imply("storage.override_delete_disabled", "true")
	imply("defaults."+keyTarget, "128MiB")
	if s, ok := f.settings["catalog.uri"]; ok {
		s.text = lakekeeperURI(s.text)
		f.settings["catalog.uri"] = s
	}
	if s, ok := f.settings[keyS3Endpoint]; ok {
		s.text = r.endpoint(s.text, found["s3.use_ssl"])
		f.settings[keyS3Endpoint] = s
		imply("storage.s3.url_style", urlStylePath)
		if strings.HasPrefix(s.text, "https://") && !hostWithin(s.text, "amazonaws.com") && !hostWithin(s.text, "amazonaws.com.cn") {
			imply("storage.s3.gcs_interop", "true")
		}
	} else {
		// Without an endpoint the store is AWS, and ColdFront leaves the style to
		// the SDK: regions of today route the bucket in the host name only.
		delete(f.settings, "storage.s3.url_style")
	}
}

// lakekeeperURI returns the address of the REST catalog for the endpoint of a
// Lakekeeper, which serves the catalog under /catalog. The endpoint may be
// given with or without that path; any other path is taken as it is.
func lakekeeperURI(endpoint string) string {
	trimmed := strings.TrimRight(strings.TrimSpace(endpoint), "/")
	u, err := url.Parse(trimmed)
	if err != nil || u.Host == "" || u.Path != "" {
		return trimmed
	}
	u.Path = "/catalog"
	return u.String()
}

// endpoint puts http:// or https:// in front of ColdFront's host and port, as
// use_ssl says. An endpoint that has one already keeps it.
func (r *reader) endpoint(text string, useSSL setting) string {
	text = strings.TrimSpace(text)
	scheme := "http://"
	if useSSL.text != "" {
		tls, err := parseBool(useSSL.text)
		if err != nil {
			r.violations.add("s3.use_ssl", useSSL.origin, "%v", err)
		}
		if tls {
			scheme = "https://"
		}
	}
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		if useSSL.text != "" && !strings.HasPrefix(text, scheme) {
			r.violations.add("s3.use_ssl", useSSL.origin, "is %s, but s3.endpoint starts differently: %s", useSSL.text, text)
		}
		return text
	}
	return scheme + text
}

// hostWithin says whether the address is of that domain or below it.
func hostWithin(address, domain string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return host == domain || strings.HasSuffix(host, "."+domain)
}
