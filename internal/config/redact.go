package config

import (
	"net/url"
	"strings"
)

// urlRedacted stands for a secret inside a URL, where brackets would be
// escaped.
const urlRedacted = "REDACTED"

// RedactDSN returns a PostgreSQL connection string, a URL or keywords, with
// its passwords replaced. A string that cannot be taken apart for certain is
// replaced as a whole.
func RedactDSN(dsn string) string {
	if strings.TrimSpace(dsn) == "" {
		return ""
	}
	if isPostgresURL(dsn) {
		return redactURL(dsn)
	}
	pairs, ok := parseKeywords(dsn)
	if !ok {
		return redacted
	}
	parts := make([]string, len(pairs))
	for i, p := range pairs {
		if secretName(p.name) || urlWithPassword(p.value) {
			p.value = urlRedacted
		}
		parts[i] = p.name + "=" + quoteKeyword(p.value)
	}
	return strings.Join(parts, " ")
}

// DSNHasPassword says whether a connection string carries a password, or
// cannot be taken apart, in which case it may.
func DSNHasPassword(dsn string) bool {
	if isPostgresURL(dsn) {
		u, ok := parseURL(dsn)
		return !ok || hasPassword(u)
	}
	pairs, ok := parseKeywords(dsn)
	for _, p := range pairs {
		if secretName(p.name) || urlWithPassword(p.value) {
			return true
		}
	}
	return !ok
}

// urlWithPassword says whether the value of a keyword is a connection string
// of its own with a password, which dbname may be.
func urlWithPassword(value string) bool {
	if !strings.Contains(value, "://") {
		return false
	}
	u, ok := parseURL(value)
	return !ok || hasPassword(u)
}

func isPostgresURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// keyword is one name=value of a keyword connection string.
type keyword struct{ name, value string }

// isKeyword says whether the name is spelled like one of libpq's. Anything else,
// such as the beginning of a URL of another program, is not understood.
func isKeyword(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
}

// parseKeywords takes a keyword connection string apart as libpq does: spaces
// around =, values in single quotes, backslash escapes the next character.
func parseKeywords(dsn string) ([]keyword, bool) {
	var out []keyword
	rest := strings.TrimLeft(dsn, keywordSpace)
	for rest != "" {
		name, after, found := strings.Cut(rest, "=")
		name = strings.Trim(name, keywordSpace)
		if !found || !isKeyword(name) {
			return nil, false
		}
		value, tail, ok := keywordValue(strings.TrimLeft(after, keywordSpace))
		if !ok {
			return nil, false
		}
		out = append(out, keyword{name, value})
		rest = strings.TrimLeft(tail, keywordSpace)
	}
	return out, true
}

// keywordSpace is what separates keywords.
const keywordSpace = " \t\n\r\v\f"

// keywordValue reads one value and returns what follows it.
func keywordValue(s string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	if quoted {
		s = s[1:]
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
			if i == len(s) {
				return "", "", false
			}
			b.WriteByte(s[i])
		case quoted && c == '\'':
			return b.String(), s[i+1:], true
		case !quoted && strings.IndexByte(keywordSpace, c) >= 0:
			return b.String(), s[i:], true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", !quoted
}

// quoteKeyword writes a value so that libpq reads the same one back.
func quoteKeyword(value string) string {
	if value != "" && !strings.ContainsAny(value, keywordSpace+"'\\") {
		return value
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// parseURL parses a URL and refuses one in which a part of a password may
// have ended up behind the host (an @ that is not escaped), or whose query
// cannot be read in full.
func parseURL(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, false
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, false
	}
	_, authority, _ := strings.Cut(text, "://")
	end := strings.IndexAny(authority, "/?#")
	if end >= 0 && strings.Contains(authority[end:], "@") {
		return nil, false
	}
	return u, true
}

// redactURL returns text with the password of a URL, and query values with
// secret names, replaced. Text that is no URL is returned as it is.
func redactURL(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, ok := parseURL(text)
	if !ok {
		return redacted
	}
	if !hasPassword(u) {
		return text
	}
	if u.User != nil {
		if _, set := u.User.Password(); set {
			u.User = url.UserPassword(u.User.Username(), urlRedacted)
		}
	}
	q := u.Query()
	for name := range q {
		if secretName(name) {
			q.Set(name, urlRedacted)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// redactAddress returns the text of an address without user, password, query
// values and fragment, each of which may be a secret.
func redactAddress(text string) string {
	text, _, fragment := strings.Cut(text, "#")
	text, query, _ := strings.Cut(text, "?")
	out := redactURL(text)
	if u, ok := parseURL(text); ok && u.User != nil {
		if _, set := u.User.Password(); !set {
			u.User = url.User(urlRedacted)
			out = u.String()
		}
	}
	if query != "" {
		out += "?" + redactQuery(query)
	}
	if fragment {
		out += "#" + urlRedacted
	}
	return out
}

// redactQuery replaces every value of a query; what has no name is a value.
func redactQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, found := strings.Cut(pair, "=")
		if !found {
			pairs[i] = urlRedacted
			continue
		}
		pairs[i] = name + "=" + urlRedacted
	}
	return strings.Join(pairs, "&")
}

// hasPassword says whether the URL carries a password, in front of the host
// or as a query value.
func hasPassword(u *url.URL) bool {
	if u.User != nil {
		if _, set := u.User.Password(); set {
			return true
		}
	}
	for name := range u.Query() {
		if secretName(name) {
			return true
		}
	}
	return false
}

// secretProperty says whether a property of this name carries a secret. Every
// header does: which of them a server takes as a key cannot be known.
func secretProperty(name string) bool {
	n := strings.ToLower(name)
	return secretName(name) || strings.HasPrefix(n, "header.") || strings.Contains(n, ".header.")
}

// secretName says whether a setting of this name carries a secret. It errs on
// the side of redacting.
func secretName(name string) bool {
	n := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	for _, end := range []string{"uri", "url", "expiresat", "expiresatms", "accesskeyid", "enabled"} {
		if strings.HasSuffix(n, end) {
			return false
		}
	}
	for _, word := range []string{"secret", "password", "passwd", "token", "credential", "accountkey", "accesskey",
		"sharedkey", "privatekey", "jsonkey", "connectionstring", "authorization", "apikey", "sas", "signature"} {
		if strings.Contains(n, word) {
			return true
		}
	}
	return false
}
