package config

import (
	"errors"
	"strings"
)

// SharedKey returns the account and its shared key, from the connection string
// when there is one. It returns an error when the connection string lacks
// either. The key is base64 and may end in =.
func (a *Azure) SharedKey() (account string, key Secret, err error) {
	if a.ConnectionString == "" {
		return a.AccountName, a.AccountKey, nil
	}
	for _, part := range strings.Split(a.ConnectionString.Reveal(), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch strings.TrimSpace(name) {
		case "AccountName":
			account = strings.TrimSpace(value)
		case "AccountKey":
			key = Secret(strings.TrimSpace(value))
		}
	}
	if account == "" || key == "" {
		return "", "", errors.New("must hold AccountName and AccountKey")
	}
	return account, key, nil
}
