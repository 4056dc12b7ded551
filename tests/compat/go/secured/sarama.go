package main

import (
	"context"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type saramaClient struct {
	connection sarama.Client
	producer   sarama.SyncProducer
}

func connectSarama(settings Settings) (Client, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	if settings.isSecured("SSL") {
		security, err := settings.tls()
		if err != nil {
			return nil, err
		}
		config.Net.TLS.Enable, config.Net.TLS.Config = true, security
	}
	if settings.isSecured("SASL") {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(settings["mechanism"])
		config.Net.SASL.User, config.Net.SASL.Password = settings["user"], settings["password"]
		config.Net.SASL.TokenProvider = tokenFile(settings)
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			if settings["mechanism"] == "SCRAM-SHA-256" {
				return &conversation{hash: scram.SHA256}
			}
			return &conversation{hash: scram.SHA512}
		}
	}
	connection, err := sarama.NewClient([]string{settings["bootstrap.servers"]}, config)
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducerFromClient(connection)
	return &saramaClient{connection, producer}, err
}

// conversation is taken from sarama's own examples, since sarama has no SCRAM itself.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authorizationID string) error {
	client, err := c.hash.NewClient(user, password, authorizationID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

type tokenFile Settings

func (t tokenFile) Token() (*sarama.AccessToken, error) {
	token, err := Settings(t).token()
	return &sarama.AccessToken{Token: token}, err
}

func (c *saramaClient) Send(_ context.Context, topic, value string) error {
	_, _, err := c.producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
	return err
}

func (c *saramaClient) Read(ctx context.Context, topic, value string) error {
	consumer, err := sarama.NewConsumerFromClient(c.connection)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer partition.Close()
	for {
		select {
		case message := <-partition.Messages():
			if string(message.Value) == value {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *saramaClient) Close() {
	c.producer.Close()
	c.connection.Close()
}
