package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Validate checks every value and how the values fit together. It returns a
// Violations with all that is wrong, or nil; it does no I/O. What only a
// command that claims tables needs is in ValidateClaim.
func (c *Config) Validate() error { return c.violations().orNil() }

// ValidateClaim checks that a claim can be taken: that the database, or the
// folder in mode file, is given. Commands that claim nothing, such as a dry
// run, do without.
func (c *Config) ValidateClaim() error {
	var v Violations
	switch c.Claim.Mode {
	case modeFile:
		if c.Claim.Dir == "" {
			c.complain(&v, keyClaimDir, "is required in claim mode file: a folder that every writer of the table uses")
		}
	case modeNone:
	default:
		if c.Claim.Postgres == "" {
			name := keyClaimPostgres
			if c.Form == FormColdFront {
				name = "postgres.dsn"
			}
			v.add(name, Origin{}, "is required in claim mode %s; set it, or %s, or PGHOST (claims without PostgreSQL: claim.mode file or none)",
				c.Claim.Mode, envName(keyClaimPostgres))
		}
	}
	return v.orNil()
}

// violations returns everything that is wrong.
func (c *Config) violations() Violations {
	var v Violations
	for _, k := range allKeys() {
		if k.optional == nil || k.optional(c) {
			o := c.origins[k.name]
			if err := k.check(k.field(c)); err != nil {
				v.add(keyShown(k.name, o), o, "%v", err)
			}
		}
	}
	c.checkCatalog(&v)
	c.checkStorage(&v)
	c.checkTables(&v)
	return v
}

// complain adds a violation of the key, with its origin.
func (c *Config) complain(v *Violations, name, format string, args ...any) {
	o := c.origins[name]
	v.add(keyShown(name, o), o, format, args...)
}

// checkCatalog checks what belongs together in the catalog.
func (c *Config) checkCatalog(v *Violations) {
	cat := &c.Catalog
	if c.catalogOptional && !c.HasCatalog() {
		c.checkRealm(v)
		return
	}
	switch cat.Type {
	case catalogREST:
		c.require(v, "catalog.uri", string(cat.URI), "the base address of the catalog, such as http://lakekeeper:8181/catalog")
		c.checkURI(v)
	case catalogGlue:
		c.checkURI(v)
	case catalogSQL:
		c.require(v, "catalog.uri", string(cat.URI), "the SQLite file of the catalog, such as /var/lib/compactor/catalog.db")
	}
	if c.Form == FormColdFront {
		c.require(v, "catalog.warehouse", cat.Warehouse, "the warehouse in Lakekeeper")
	}
	if cat.Credential != "" && cat.Token != "" {
		c.complain(v, "catalog.token", "is given beside catalog.credential; give one of the two")
	}
	if cat.SigV4 && (cat.Credential != "" || cat.Token != "") {
		c.complain(v, "catalog.sigv4", "is given beside a token or a credential; requests carry one kind of signature")
	}
	if cat.SigV4 && cat.Type != catalogREST {
		c.complain(v, "catalog.sigv4", "belongs to catalog.type rest; a %s catalog does not use it", cat.Type)
	}
	c.checkRealm(v)
}

// checkURI checks the address of a catalog that is a server.
func (c *Config) checkURI(v *Violations) {
	if c.Catalog.URI == "" {
		return
	}
	if err := checkAddress(string(c.Catalog.URI)); err != nil {
		c.complain(v, "catalog.uri", "%v", err)
	}
}

// checkRealm checks the realm when it follows another key.
func (c *Config) checkRealm(v *Violations) {
	if c.Claim.Realm == "" && strings.Contains(c.Catalog.Warehouse, `"`) {
		c.complain(v, keyClaimRealm, "must be given, because catalog.warehouse holds a double quote")
	}
}

// require complains about a text that is missing, not about one that may stand
// in a part of the file that could not be read. In the ColdFront form it
// gives the name the key has there.
func (c *Config) require(v *Violations, name, value, what string) {
	shown := name
	if c.Form == FormColdFront {
		for theirs, ours := range coldFrontKeys() {
			if ours == name {
				shown = theirs
			}
		}
	}
	unread := func(key string) bool {
		return key == "" || key == name || key == sectionOf(name) || key == shown || key == sectionOf(shown)
	}
	if value != "" || slices.ContainsFunc(c.doubtful, unread) {
		return
	}
	v.add(shown, Origin{}, "is required: %s (or set %s)", what, envName(name))
}

// checkStorage checks what belongs together in the stores.
func (c *Config) checkStorage(v *Violations) {
	s := &c.Storage
	stores := 0
	for _, set := range []bool{s.S3 != nil, s.Azure != nil, s.GCS != nil} {
		if set {
			stores++
		}
	}
	if stores > 1 {
		v.add("storage", Origin{}, "holds more than one of s3, azure and gcs; a table lives in one store")
	}
	if s.S3 != nil {
		switch {
		case s.S3.AccessKeyID != "" && s.S3.SecretAccessKey == "":
			c.complain(v, keyS3AccessKeyID, "has no secret key beside it: set %s", c.secretHint())
		case s.S3.AccessKeyID == "" && s.S3.SecretAccessKey != "":
			c.complain(v, keyS3SecretKey, "has no access key id beside it")
		case s.S3.AccessKeyID == "" && s.S3.SessionToken != "":
			c.complain(v, keyS3SessionToken, "has no keys beside it")
		}
	}
	c.checkAzure(v)
}

func (c *Config) secretHint() string {
	if c.Form == FormColdFront {
		return "s3.secret_key"
	}
	return envName(keyS3SecretKey) + " or AWS_SECRET_ACCESS_KEY"
}

func (c *Config) checkAzure(v *Violations) {
	a := c.Storage.Azure
	if a == nil {
		return
	}
	if a.ConnectionString != "" {
		if _, _, err := a.SharedKey(); err != nil {
			c.complain(v, "storage.azure.connection_string", "%v", err)
		}
	} else if a.AccountName == "" {
		c.require(v, "storage.azure.account_name", "", "the storage account, unless there is a connection string")
	}
}

// checkTables checks the entries of the list of tables.
func (c *Config) checkTables(v *Violations) {
	checkPolicy(v, "defaults.", c.Defaults, c.origins)
	for i, t := range c.Tables {
		shown := fmt.Sprintf("tables[%d]", i)
		if t.Match == "" {
			v.add(shown, t.Origin, "has no match: a table or a glob such as sales.*")
		} else if _, err := path.Match(t.Match, ""); err != nil {
			v.add(shown+".match", t.Set[keyMatch], "%q is not a glob: %v", t.Match, err)
		}
		for _, k := range policyKeys() {
			o, set := t.Set[k.name]
			if !set {
				continue
			}
			inPolicy := k.policy
			k.field = func(*Config) any { return inPolicy(new(Policy)) }
			if err := k.check(inPolicy(&c.Tables[i].Policy)); err != nil {
				v.add(shown+"."+k.name, o, "%v", err)
			}
		}
		c.checkMerged(v, shown, t)
	}
}

// checkMerged checks the sizes of an entry together with the defaults, when
// the entry sets one of them.
func (c *Config) checkMerged(v *Violations, shown string, t TablePolicy) {
	sets := false
	for _, name := range []string{keyTarget, keyMinFile, keyMaxFile, keyMaxGroup} {
		_, has := t.Set[name]
		sets = sets || has
	}
	if !sets {
		return
	}
	merged, origins := c.Defaults, map[string]Origin{}
	for _, k := range policyKeys() {
		origins[k.name] = c.origins["defaults."+k.name]
	}
	overlay(&merged, origins, t)
	checkPolicy(v, shown+".", merged, origins)
}

// checkPolicy checks that the sizes of a policy are in order.
func checkPolicy(v *Violations, prefix string, p Policy, origins map[string]Origin) {
	at := func(name string) Origin {
		if o, ok := origins[prefix+name]; ok {
			return o
		}
		return origins[name]
	}
	target := p.Compact.TargetFileSize
	if p.Compact.MinFileSize > target {
		v.add(prefix+keyMinFile, at(keyMinFile), "%s is more than the target of %s: a rewritten file would be a candidate again", p.Compact.MinFileSize, target)
	}
	if p.Compact.MaxFileSize != 0 && p.Compact.MaxFileSize < target {
		v.add(prefix+keyMaxFile, at(keyMaxFile), "%s is less than the target of %s: a rewritten file would be a candidate again", p.Compact.MaxFileSize, target)
	}
	if p.Compact.MaxGroupSize < target {
		v.add(prefix+keyMaxGroup, at(keyMaxGroup), "%s is less than the target of %s", p.Compact.MaxGroupSize, target)
	}
}
