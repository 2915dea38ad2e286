package config

import (
	"fmt"
	"maps"
	"os"
	"strings"
)

// Source is what a Config is made from.
type Source struct {
	// Path is the configuration file; empty means none.
	Path string
	// Env looks a name up in the environment, as os.LookupEnv does; nil means
	// an empty environment. A variable that is set but empty counts as unset.
	Env func(string) (string, bool)
	// Environ lists the names in the environment, alone or as os.Environ writes
	// them. Those that look like settings and are none give a warning; nil gives
	// none.
	Environ []string
	// Flags are the values given on the command line, by key ("claim.mode",
	// "defaults.compact.target_file_size"). Secrets are refused here.
	Flags map[string]string
	// FlagNames are the flags as the operator knows them, by key, without the
	// dashes; a key that is missing here is called after itself ("claim-mode").
	FlagNames map[string]string
	// CatalogOptional lets a configuration that names no catalog pass, for
	// programs that can do without; HasCatalog then says whether there is one.
	CatalogOptional bool
	// ReadFile reads the configuration file and the files with secrets; nil
	// means os.ReadFile.
	ReadFile func(string) ([]byte, error)
}

// Load reads, merges and checks a configuration. It reads the file and the
// secret files it names, writes nothing and reaches no server. The error is a
// Violations with everything that is wrong, and then the Config holds what
// could be read, for printing only; or it is a plain error when the file itself
// cannot be read, and then there is no Config.
func Load(src Source) (*Config, error) {
	if src.Env == nil {
		src.Env = func(string) (string, bool) { return "", false }
	}
	if src.ReadFile == nil {
		src.ReadFile = os.ReadFile
	}
	src.Flags = maps.Clone(src.Flags)
	var text []byte
	if src.Path != "" {
		var err error
		if text, err = src.ReadFile(src.Path); err != nil {
			return nil, fmt.Errorf("read configuration %s: %w", src.Path, err)
		}
	}
	f, violations := parseFile(src.Path, text)
	m := &merger{src: src, file: f, known: newSchema(allKeys()), violations: violations}
	m.cfg = &Config{Form: f.form, Path: src.Path, Warnings: f.warnings, origins: map[string]Origin{}, catalogOptional: src.CatalogOptional}
	for _, v := range violations {
		m.cfg.doubtful = append(m.cfg.doubtful, v.Key)
	}
	m.checkFlags()
	m.merge()
	m.tables()
	m.derive()
	m.warn()
	return m.cfg, append(m.violations, m.cfg.violations()...).orNil()
}

// merger puts the layers together, key by key.
type merger struct {
	src        Source
	file       *file
	known      *schema
	cfg        *Config
	violations Violations
	// given are the layers that have a value for a key, by its name.
	given map[string][]layer
}

// merge assigns every key the value of the highest layer that has one.
func (m *merger) merge() {
	keys := allKeys()
	given := make(map[string][]layer, len(keys))
	for _, k := range keys {
		given[k.name] = m.layers(k)
		if len(given[k.name]) > 0 && k.optional != nil {
			m.file.sections[sectionOf(k.name)] = true
		}
	}
	m.given = given
	m.makeSections()
	aws := m.awsKeys()
	for _, k := range keys {
		if k.optional != nil && !m.file.sections[sectionOf(k.name)] {
			continue
		}
		m.set(k, m.choose(k, given[k.name], aws))
	}
}

// makeSections makes the stores that are there, also those without a value.
func (m *merger) makeSections() {
	if m.file.sections["storage.s3"] {
		section(&m.cfg.Storage.S3)
	}
	if m.file.sections["storage.azure"] {
		section(&m.cfg.Storage.Azure)
	}
	if m.file.sections["storage.gcs"] {
		section(&m.cfg.Storage.GCS)
	}
}

// sectionOf returns the section a dotted name stands in.
func sectionOf(name string) string { return name[:strings.LastIndexByte(name, '.')] }

// layer is a value one layer gives; file says that it names a file with the
// value.
type layer struct {
	setting
	file bool
}

// layers returns what flag, environment and file give for a key, the
// strongest first.
func (m *merger) layers(k *key) []layer {
	var out []layer
	add := func(find func(string) (setting, bool)) {
		s, ok := find(k.name)
		if k.hasFile() {
			if named, given := find(k.name + fileSuffix); given {
				if ok {
					m.violations.add(k.name, s.origin, "is given directly and with %s at once; give one", k.name+fileSuffix)
				}
				out = append(out, layer{named, true})
				return
			}
		}
		if ok {
			out = append(out, layer{s, false})
		}
	}
	add(m.flag)
	add(func(name string) (setting, bool) { return m.env(envName(name)) })
	add(func(name string) (setting, bool) { s, ok := m.file.settings[name]; return s, ok })
	return out
}

func (m *merger) flag(name string) (setting, bool) {
	text, ok := m.src.Flags[name]
	return setting{text: text, origin: Origin{Kind: FromFlag, Name: m.flagName(name)}}, ok && text != ""
}

func (m *merger) flagName(name string) string {
	if n, ok := m.src.FlagNames[name]; ok {
		return n
	}
	return flagName(name)
}

func (m *merger) env(name string) (setting, bool) {
	text, ok := m.src.Env(name)
	return setting{text: text, origin: Origin{Kind: FromEnvironment, Name: name}}, ok && text != ""
}

// choose returns the setting that counts, the default when no layer has one.
func (m *merger) choose(k *key, given []layer, aws bool) setting {
	std, hasStd := m.standard(k, aws)
	stdFirst := m.file.form == FormOwn
	switch {
	case aws && isAWSKey(k.name):
		return std
	case len(given) > 0 && (!hasStd || given[0].origin.Kind > FromFile || !stdFirst):
		return m.content(k, given[0])
	case hasStd:
		return std
	}
	if s, ok := m.file.implied[k.name]; ok {
		return s
	}
	if def, ok := m.file.defaults[k.name]; ok {
		return setting{text: def, origin: Origin{Name: "of the ColdFront command line"}}
	}
	return setting{text: k.def}
}

// content replaces the name of a secret's file by what is in it.
func (m *merger) content(k *key, l layer) setting {
	if !l.file {
		return l.setting
	}
	text, err := m.src.ReadFile(l.text)
	if err != nil {
		m.violations.add(k.name+fileSuffix, l.origin, "%v", err)
		return setting{origin: l.origin}
	}
	l.text = strings.TrimRight(string(text), "\r\n")
	if l.text == "" {
		m.violations.add(k.name+fileSuffix, l.origin, "the file is empty")
	}
	return l.setting
}

// set assigns the value and notes where it came from.
func (m *merger) set(k *key, s setting) {
	ptr := k.field(m.cfg)
	if s.props != nil {
		m.cfg.Catalog.Properties = s.props
	} else if s.text != "" {
		text := s.text
		if _, secret := ptr.(*Secret); !secret {
			text = strings.TrimSpace(text)
		}
		if err := assign(ptr, text); err != nil {
			m.violations.add(keyShown(k.name, s.origin), s.origin, "%v", err)
			k.mustDefault(ptr)
		}
	}
	m.cfg.origins[k.name] = s.origin
}

// keyShown is the name of a key as the operator wrote it.
func keyShown(name string, o Origin) string {
	if o.Kind == FromFile && o.Name != "" {
		return o.Name
	}
	return name
}

// checkFlags reports flags for keys that are unknown or secret.
func (m *merger) checkFlags() {
	for _, name := range sortedKeys(m.src.Flags) {
		o := Origin{Kind: FromFlag, Name: m.flagName(name)}
		k, known := m.known.keys[name]
		_, namesFile := m.known.fileOf[name]
		switch {
		case namesFile:
		case !known:
			m.violations.add(name, o, "unknown key; did you mean %s?", m.known.nearestKey(name))
		case k.secret() || k.hasFile() && DSNHasPassword(m.src.Flags[name]):
			m.violations.add(name, o, "a secret is never a flag, where every user of the machine could read it: set %s or name a file in %s",
				envName(name), name+fileSuffix)
			delete(m.src.Flags, name)
		}
	}
}
