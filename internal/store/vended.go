package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const (
	// renewBefore is how long before their end vended credentials are renewed,
	// unless that is more than a third of their life.
	renewBefore = 5 * time.Minute
	// assumedLife is the life of a session token that came without an end.
	assumedLife = time.Hour
	// renewAgain is how soon a failed renewal is tried again while the old
	// credentials are still good, and the least time between two renewals that
	// the store's answers ask for.
	renewAgain = 5 * time.Second
)

// Vended are credentials that a catalog hands out for a time. All FS values
// that carry it sign each request with the newest ones, so that work may last
// longer than any of them: an open file, a listing, an upload in parts. It may
// be used by many goroutines.
type Vended struct {
	renew func(context.Context) (map[string]string, error)
	now   func() time.Time

	flight sync.Mutex // one renewal at a time

	mu    sync.Mutex
	props map[string]string
	taken time.Time
	stale bool // the store refused them
	s3s   map[S3Options]*s3Backend
}

// NewVended begins with the FileIO properties that came with a table. renew
// asks the catalog for new ones; it has to be bounded in time by itself.
func NewVended(props map[string]string, renew func(context.Context) (map[string]string, error)) *Vended {
	v := &Vended{renew: renew, now: time.Now, s3s: map[S3Options]*s3Backend{}}
	v.Offer(props)
	return v
}

// Offer hands over properties that came by another way. They are taken when
// they are good for longer than those at hand.
func (v *Vended) Offer(props map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.props == nil || expiry(props).After(expiry(v.props)) {
		v.take(props)
	}
}

func (v *Vended) take(props map[string]string) {
	v.props, v.taken, v.stale = maps.Clone(props), v.now(), false
}

// end is when the credentials at hand end; zero for keys that do not.
func (v *Vended) end() time.Time {
	if at := expiry(v.props); !at.IsZero() {
		return at
	}
	if v.props[propSessionToken] != "" {
		return v.taken.Add(assumedLife)
	}
	return time.Time{}
}

// due is when they should be renewed; zero for never.
func (v *Vended) due() time.Time {
	end := v.end()
	if end.IsZero() {
		return end
	}
	if v.stale {
		return v.taken
	}
	return end.Add(-min(renewBefore, max(0, end.Sub(v.taken))/3))
}

// Expires is the end of the credentials at hand; zero if they have none, or
// none was told.
func (v *Vended) Expires() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return expiry(v.props)
}

// Retrieve returns the credentials at hand, renewed when it is time. When the
// renewal fails they are used for as long as they are good.
func (v *Vended) Retrieve(ctx context.Context) (aws.Credentials, error) {
	v.flight.Lock()
	defer v.flight.Unlock()
	v.mu.Lock()
	due, end := v.due(), v.end()
	v.mu.Unlock()
	now := v.now()
	if !due.IsZero() && !now.Before(due) {
		props, err := v.renew(ctx)
		if err != nil && !now.Before(end) {
			return aws.Credentials{}, fmt.Errorf("renew vended credentials: %w", err)
		}
		v.mu.Lock()
		if err == nil {
			v.take(props)
		}
		v.mu.Unlock()
	}
	return v.current(now)
}

func (v *Vended) current(now time.Time) (aws.Credentials, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := aws.Credentials{
		AccessKeyID: v.props[propAccessKeyID], SecretAccessKey: v.props[propSecretKey],
		SessionToken: v.props[propSessionToken], Source: "catalog",
	}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return c, errors.New("the catalog vends no S3 credentials any more")
	}
	if due := v.due(); !due.IsZero() {
		c.CanExpire, c.Expires = true, due
		if !due.After(now) {
			c.Expires = now.Add(renewAgain)
		}
	}
	return c, nil
}

// refused notes that the store no longer takes the credentials. It returns
// whether it is worth asking for new ones.
func (v *Vended) refused() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.end().IsZero() || v.now().Sub(v.taken) < renewAgain {
		return false
	}
	v.stale = true
	return true
}

// backend returns the S3 client that signs with v, or nil when the keys in
// props are not vended ones, or have no end.
func (v *Vended) backend(ctx context.Context, s *Store, props map[string]string) (*s3Backend, error) {
	if s.opts.S3.AccessKeyID != "" || props[propAccessKeyID] == "" {
		return nil, nil //nolint:nilnil // Another client serves these.
	}
	o, err := s.opts.S3.fill(props)
	if err != nil {
		return nil, err
	}
	o.AccessKeyID, o.SecretAccessKey, o.SessionToken = "", "", ""
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.end().IsZero() {
		return nil, nil //nolint:nilnil // Another client serves these.
	}
	if b, ok := v.s3s[o]; ok {
		return b, nil
	}
	b, err := newS3Backend(ctx, o, s, v)
	if err != nil {
		return nil, err
	}
	v.s3s[o] = b
	return b, nil
}

// renewingRetryer repeats a request that failed because the credentials it was
// signed with have ended, with new ones.
type renewingRetryer struct {
	aws.RetryerV2
	vended *Vended
	cache  *aws.CredentialsCache
}

// IsErrorRetryable adds the answers that speak of the credentials' end.
func (r renewingRetryer) IsErrorRetryable(err error) bool {
	switch errorCode(err) {
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", "InvalidToken", "InvalidAccessKeyId":
		if !r.vended.refused() {
			return false
		}
		r.cache.Invalidate()
		return true
	}
	return r.RetryerV2.IsErrorRetryable(err)
}
