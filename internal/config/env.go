package config

import "strings"

// isAWSKey says whether the key is one of the three that make up AWS keys.
func isAWSKey(name string) bool {
	return name == keyS3AccessKeyID || name == keyS3SecretKey || name == keyS3SessionToken
}

// awsKeys says whether the keys in AWS_ACCESS_KEY_ID and its companions
// count. They count only as a whole, so that an id of one place never meets a
// secret of another: both id and secret must be there, and no stronger layer
// may give either. In the ColdFront form the file is stronger.
func (m *merger) awsKeys() bool {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if _, ok := m.env(name); !ok {
			return false
		}
	}
	for _, name := range []string{keyS3AccessKeyID, keyS3SecretKey} {
		for _, l := range m.given[name] {
			if l.origin.Kind > FromFile || m.file.form == FormColdFront {
				return false
			}
		}
	}
	return true
}

// standard returns what the environment gives for the key under the names
// other programs use.
func (m *merger) standard(k *key, aws bool) (setting, bool) {
	if k.name == keyClaimPostgres {
		return m.postgres()
	}
	if isAWSKey(k.name) && !aws || k.standardWhen != nil && !k.standardWhen(m.cfg) {
		return setting{}, false
	}
	for _, name := range k.standard {
		if s, ok := m.env(name); ok {
			return s, true
		}
	}
	return setting{}, false
}

// postgres builds a connection string from PGHOST and the other PG names. As
// in libpq they are what a connection string leaves out, so they count only
// where no connection string is given; the password, certificates and the
// rest are read from the environment by the PostgreSQL client itself.
func (m *merger) postgres() (setting, bool) {
	if len(m.given[keyClaimPostgres]) > 0 {
		return setting{}, false
	}
	names := []struct{ env, keyword string }{
		{"PGSERVICE", "service"}, {"PGHOST", "host"}, {"PGPORT", "port"}, {"PGDATABASE", "dbname"},
		{"PGUSER", "user"}, {"PGSSLMODE", "sslmode"},
	}
	var parts []string
	first := Origin{}
	located := false
	for _, n := range names {
		s, ok := m.env(n.env)
		if !ok {
			continue
		}
		if len(parts) == 0 {
			first = s.origin
		}
		located = located || n.env == "PGSERVICE" || n.env == "PGHOST" || n.env == "PGDATABASE"
		parts = append(parts, n.keyword+"="+quoteKeyword(s.text))
	}
	return setting{text: strings.Join(parts, " "), origin: first}, located
}

// derive fills in what follows from other values.
func (m *merger) derive() {
	c := m.cfg
	if c.Storage.S3 != nil && c.Storage.S3.Endpoint != "" && c.Storage.S3.Region == "" {
		c.Storage.S3.Region = "us-east-1"
		c.origins[keyS3Region] = Origin{Name: "because there is an endpoint"}
	}
	if c.Claim.Realm != "" {
		return
	}
	c.Claim.Realm, c.origins[keyClaimRealm] = c.Catalog.Warehouse, Origin{Name: "from catalog.warehouse"}
	if c.Claim.Realm == "" {
		c.Claim.Realm, c.origins[keyClaimRealm] = c.Catalog.Name, Origin{Name: "from catalog.name"}
	}
}

// warn collects remarks on what is allowed but may not be meant.
func (m *merger) warn() {
	c := m.cfg
	c.Warnings = append(c.Warnings, m.unknownNames()...)
	for _, name := range sortedKeys(c.Catalog.Properties) {
		if o := c.origins["catalog.properties"]; o.Kind == FromFile && secretProperty(name) {
			c.Warnings = append(c.Warnings, Violation{Key: "catalog.properties." + name, Origin: o,
				Message: "looks like a secret and stands in the file; keep the file private or give the properties in " + envName("catalog.properties")}.String())
		}
	}
	if c.Catalog.OAuth2ServerURI != "" && c.Catalog.Credential == "" {
		c.Warnings = append(c.Warnings, Violation{Key: "catalog.oauth2_server_uri", Origin: c.origins["catalog.oauth2_server_uri"],
			Message: "has no effect without catalog.credential"}.String())
	}
	if c.Claim.Mode == modeNone {
		c.Warnings = append(c.Warnings, Violation{Key: keyClaimMode, Origin: c.origins[keyClaimMode],
			Message: "none takes no claim: other writers of the table may lose their commit to this one, and this one to theirs"}.String())
	}
}
