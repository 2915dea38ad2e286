// Package config turns a file, the environment and the command line into one
// checked Config.
//
// Two kinds of file are read. The own form is strict: a key it does not know
// is a violation that names the line and the nearest known key. The ColdFront
// form is the deployment YAML the ColdFront archiver reads; it is recognised
// by its sections, and keys that belong to other ColdFront programs are
// ignored.
//
// Each value has an Origin. A flag beats the environment, which beats the
// file, which beats a table property, which beats the default. Secrets are
// never flags. In the own form they come from the environment or from a file
// named by a key that ends in _file; they are kept in types that print
// redacted, so that a Config can be logged.
//
// One table of keys (keys_catalog.go, keys_storage.go, keys_claim.go,
// keys_policy.go) drives all of this: what is known, the environment names,
// the ranges, `config show` and docs/configuration.md.
//
// The package reads the configuration file and the secret files it names, and
// nothing else: no network, no clock. A Config is safe for concurrent reading.
package config
