package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// franz-go retries a produce for as long as it may, and does not return the cause. A request of its own does.
const sendTimeout = 3 * time.Second

type franzClient struct {
	producer *kgo.Client
	options  []kgo.Opt
}

func connectFranz(settings Settings) (Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(settings["bootstrap.servers"]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequestRetries(2),
	}
	if settings.isSecured("SSL") {
		config, err := settings.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if settings.isSecured("SASL") {
		options = append(options, kgo.SASL(franzMechanism(settings)))
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	if err := ping(producer); err != nil {
		producer.Close()
		return nil, err
	}
	return &franzClient{producer, options}, nil
}

func franzMechanism(settings Settings) sasl.Mechanism {
	user, password := settings["user"], settings["password"]
	switch settings["mechanism"] {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := settings.token()
			return oauth.Auth{Token: token}, err
		})
	}
}

func ping(client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return client.Ping(ctx)
}

func (c *franzClient) Send(ctx context.Context, topic, value string) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := c.producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
	if err != nil {
		return errors.Join(err, ping(c.producer))
	}
	return nil
}

func (c *franzClient) Read(ctx context.Context, topic, value string) error {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	consumer, err := kgo.NewClient(append(c.options, kgo.ConsumePartitions(start))...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) == value {
				return nil
			}
		}
	}
}

func (c *franzClient) Close() {
	c.producer.Close()
}
