package testenv

import (
	"bytes"
	"crypto/rand"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
)

// newS3 makes a client for the lake's bucket by way of an endpoint.
func newS3(lake *Lake, endpoint string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint), Region: lake.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(lake.AccessKey, lake.SecretKey, ""),
	})
}

// putInParts uploads data as an object of several parts.
func putInParts(t *testing.T, client *s3.Client, bucket, key string, data []byte) {
	t.Helper()
	upload, err := client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key})
	require.NoError(t, err)
	const size = 5 << 20
	var parts []types.CompletedPart
	for number := int32(1); len(data) > 0; number++ {
		n := min(size, len(data))
		part, err := client.UploadPart(t.Context(), &s3.UploadPartInput{
			Bucket: &bucket, Key: &key, UploadId: upload.UploadId, PartNumber: &number, Body: bytes.NewReader(data[:n]),
		})
		require.NoError(t, err)
		parts = append(parts, types.CompletedPart{ETag: part.ETag, PartNumber: aws.Int32(number)})
		data = data[n:]
	}
	_, err = client.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{
		Bucket: &bucket, Key: &key, UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	require.NoError(t, err)
}

func TestProxyCarriesSignedS3Requests(t *testing.T) {
	lake := SharedLake(t)
	p := NewProxy(t, lake.S3Endpoint)
	client, direct := newS3(lake, p.URL), newS3(lake, lake.S3Endpoint)
	createTable(t, openCatalog(t, lake, ""), lake) // Objects live below a table of the bucket.
	prefix := lake.Namespace + "/t/data/"
	small, large := make([]byte, 1000), make([]byte, 12<<20)
	_, _ = rand.Read(small)
	_, _ = rand.Read(large)

	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &lake.Bucket, Key: aws.String(prefix + "small.parquet"), Body: bytes.NewReader(small),
	})
	require.NoError(t, err)
	putInParts(t, client, lake.Bucket, prefix+"large.parquet", large)

	for key, want := range map[string][]byte{"small.parquet": small, "large.parquet": large} {
		for _, reader := range []*s3.Client{client, direct} {
			object, err := reader.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &lake.Bucket, Key: aws.String(prefix + key)})
			require.NoError(t, err)
			got, err := io.ReadAll(object.Body)
			require.NoError(t, err)
			require.NoError(t, object.Body.Close())
			require.True(t, bytes.Equal(want, got), "bytes of %s", key)
		}
	}
	ranged, err := client.GetObject(t.Context(), &s3.GetObjectInput{
		Bucket: &lake.Bucket, Key: aws.String(prefix + "small.parquet"), Range: aws.String("bytes=10-19"),
	})
	require.NoError(t, err)
	got, err := io.ReadAll(ranged.Body)
	require.NoError(t, err)
	require.NoError(t, ranged.Body.Close())
	require.Equal(t, small[10:20], got)

	list, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &lake.Bucket, Prefix: aws.String(prefix)})
	require.NoError(t, err)
	require.Len(t, list.Contents, 2)
	require.Equal(t, []string{prefix + "large.parquet", prefix + "small.parquet"}, []string{*list.Contents[0].Key, *list.Contents[1].Key})
	uploaded := int64(0)
	for _, r := range p.Requests() {
		if r.Method == "PUT" && strings.HasSuffix(r.Path, "/large.parquet") {
			uploaded += r.BodyBytes
		}
	}
	require.GreaterOrEqual(t, uploaded, int64(len(large)))
}

func TestProxyRefusesS3DeletesByRule(t *testing.T) {
	lake := SharedLake(t)
	p := NewProxy(t, lake.S3Endpoint)
	client := newS3(lake, p.URL)
	createTable(t, openCatalog(t, lake, ""), lake)
	key := lake.Namespace + "/t/data/kept.parquet"
	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &lake.Bucket, Key: &key, Body: strings.NewReader("x")})
	require.NoError(t, err)
	p.Handle(Rule{Match: MethodPath("DELETE", "/analytics/**"), Action: AnswerWithoutForward(403, "<Error><Code>AccessDenied</Code></Error>")})
	_, err = client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &lake.Bucket, Key: &key})
	require.ErrorContains(t, err, "AccessDenied")
	_, err = client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &lake.Bucket, Key: &key})
	require.NoError(t, err)
	p.ClearRules()
	_, err = client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &lake.Bucket, Key: &key})
	require.NoError(t, err)
	_, err = client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &lake.Bucket, Key: &key})
	require.Error(t, err)
}

func TestProxyCountsCatalogRequests(t *testing.T) {
	lake := SharedLake(t)
	p := NewProxy(t, lake.CatalogURI)
	createTable(t, openCatalog(t, lake, p.URL), lake)
	require.Equal(t, 1, p.Count(Is("POST", "/v1/*/namespaces")))
	require.Equal(t, 1, p.Count(Is("POST", "/v1/*/namespaces/*/tables")))
	for _, r := range p.Requests() {
		require.Less(t, r.Status, 300, "%s %s", r.Method, r.Path)
	}
}
