package bakery

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// names says whether a connection string itself gives the keyword; what the environment or a password file would add does not count.
func names(dsn, keyword string) bool {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return regexp.MustCompile(`(?:^|\s)` + keyword + `\s*=\s*[^\s']|(?:^|\s)` + keyword + `\s*=\s*'[^']`).MatchString(dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return false
	}
	if u.Query().Get(keyword) != "" {
		return true
	}
	if u.User == nil {
		return false
	}
	if keyword == "user" {
		return u.User.Username() != ""
	}
	password, _ := u.User.Password()
	return keyword == "password" && password != ""
}

// userOf returns the role that a connection string names, empty when it leaves that to whoever connects.
func userOf(dsn string) string {
	if !names(dsn, "user") {
		return ""
	}
	conf, err := pgx.ParseConfig(dsn)
	if err != nil {
		return ""
	}
	return conf.User
}
