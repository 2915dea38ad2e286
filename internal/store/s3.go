package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const maxBackoff = 8 * time.Second

// s3Backend speaks to one endpoint with one set of credentials.
type s3Backend struct {
	api         *s3.Client
	opts        S3Options
	smallObject int64
	partSize    int64
	concurrency int
	backoff     *retry.ExponentialJitterBackoff
	// noBatch is set once the endpoint has shown that it has no DeleteObjects.
	noBatch atomic.Bool
}

// AWSConfig loads the AWS configuration that the store's options and the
// default chain give: region, credentials, profile. Catalogs that sign with
// SigV4 use it as well.
func (s *Store) AWSConfig(ctx context.Context) (aws.Config, error) {
	return loadAWS(ctx, s.opts.S3)
}

func loadAWS(ctx context.Context, o S3Options) (aws.Config, error) {
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	if o.AccessKeyID != "" {
		load = append(load, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, o.SessionToken)))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return cfg, fmt.Errorf("load AWS configuration: %w", err)
	}
	return cfg, nil
}

// newS3Backend makes the client; vended, when set, signs in place of the
// options' keys.
func newS3Backend(ctx context.Context, o S3Options, s *Store, vended *Vended) (*s3Backend, error) {
	cfg, err := loadAWS(ctx, o)
	if err != nil {
		return nil, err
	}
	own := o.Endpoint != "" || cfg.BaseEndpoint != nil
	if cfg.Region == "" {
		if !own {
			return nil, errors.New("no S3 region is set: set the store's region, or AWS_REGION")
		}
		cfg.Region = "us-east-1"
	}
	// Each client has its attempts to itself: the SDK's shared retry quota would
	// make unrelated requests fail while one prefix is throttled.
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(ro *retry.StandardOptions) {
			ro.MaxAttempts = o.MaxAttempts
			ro.MaxBackoff = maxBackoff
			ro.RateLimiter = ratelimit.None
		})
	}
	if vended != nil {
		cache, standard := aws.NewCredentialsCache(vended), cfg.Retryer
		cfg.Credentials = cache
		cfg.Retryer = func() aws.Retryer {
			return renewingRetryer{RetryerV2: standard().(aws.RetryerV2), vended: vended, cache: cache}
		}
	}
	cfg.HTTPClient = countingClient{http: s.http, counters: s.opts.Counters, limit: s.limit, clock: &s.clock}
	api := s3.NewFromConfig(cfg, func(so *s3.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(strings.TrimRight(o.Endpoint, "/"))
		}
		so.UsePathStyle = o.URLStyle == StylePath || (o.URLStyle == StyleAuto && own)
		// Ranged answers carry no checksum to compare with.
		so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if o.Interop {
			so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			so.APIOptions = append(so.APIOptions, leaveAcceptEncodingUnsigned)
		}
	})
	return &s3Backend{
		api: api, opts: o,
		smallObject: s.opts.SmallObject, partSize: s.opts.PartSize, concurrency: s.opts.Concurrency,
		backoff: retry.NewExponentialJitterBackoff(maxBackoff),
	}, nil
}

// Open reads the object's first block, which for a small one is all of it.
func (b *s3Backend) Open(ctx context.Context, path string) (icebergio.File, error) {
	return openRanged(ctx, b, path, b.smallObject)
}

// Stat asks with HEAD.
func (b *s3Backend) Stat(ctx context.Context, path string) (Object, error) {
	loc, err := parseS3Object(path)
	if err != nil {
		return Object{}, err
	}
	out, err := b.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &loc.bucket, Key: &loc.key})
	if err != nil {
		return Object{}, explain(err)
	}
	return Object{Path: path, Size: aws.ToInt64(out.ContentLength), ModTime: aws.ToTime(out.LastModified)}, nil
}

// List pages through ListObjectsV2 without a delimiter. Objects without content whose
// key ends in a slash are folder markers of other tools and are left out.
func (b *s3Backend) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		loc, err := parseS3(prefix)
		if err != nil {
			yield(Object{}, err)
			return
		}
		key := loc.key
		if key != "" && !strings.HasSuffix(key, "/") {
			key += "/"
		}
		pages := s3.NewListObjectsV2Paginator(b.api, &s3.ListObjectsV2Input{Bucket: &loc.bucket, Prefix: &key},
			func(po *s3.ListObjectsV2PaginatorOptions) { po.StopOnDuplicateToken = true })
		for pages.HasMorePages() {
			if ctx.Err() != nil {
				yield(Object{}, context.Cause(ctx))
				return
			}
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Object{}, explain(err))
				return
			}
			clock, _ := awsmiddleware.GetServerTime(page.ResultMetadata)
			for _, o := range page.Contents {
				k := aws.ToString(o.Key)
				if strings.HasSuffix(k, "/") && aws.ToInt64(o.Size) == 0 {
					continue
				}
				obj := Object{Path: loc.root + "/" + k, Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified), Listed: clock}
				if !yield(obj, nil) {
					return
				}
			}
		}
	}
}

// pause waits before attempt n+1; it returns early when ctx ends.
func (b *s3Backend) pause(ctx context.Context, n int, err error) error {
	d, derr := b.backoff.BackoffDelay(n, err)
	if derr != nil {
		return fmt.Errorf("compute backoff: %w", derr)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// errChanged is returned when an object was replaced while it was being read.
var errChanged = &kindError{kind: fs.ErrInvalid, err: errors.New("the object was replaced while it was read")}
