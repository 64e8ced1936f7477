# A shop on Rails: posts an event for each order, and receives what Breakwater delivers. One file, for `rackup` or `puma`.
require "action_controller/railtie"
require "net/http"
require "standardwebhooks"

class Shop < Rails::Application
  config.eager_load = false
  config.hosts.clear
  config.logger = Logger.new($stderr)
  config.secret_key_base = "the example has no sessions"

  routes.append do
    post "/orders", to: "shop#order"
    post "/webhooks", to: "shop#receive"
  end
end

class ShopController < ActionController::API
  def order
    order = JSON.parse(request.raw_post)
    event = { type: "order.created", tenant: "acme", data: order }
    answer = Net::HTTP.post(
      URI("#{ENV.fetch("BREAKWATER_URL")}/v1/events"),
      event.to_json,
      "Authorization" => "Bearer #{ENV.fetch("BREAKWATER_KEY")}",
      "Content-Type" => "application/json",
      "Idempotency-Key" => "order #{order["id"]}"
    )
    return render(plain: answer.body, status: :bad_gateway) unless answer.is_a?(Net::HTTPSuccess)

    render json: { event: JSON.parse(answer.body)["id"] }, status: :created
  end

  def receive
    names = %w[webhook-id webhook-timestamp webhook-signature]
    headers = names.to_h { |name| [name, request.headers[name]] }
    event = StandardWebhooks::Webhook.new(ENV.fetch("WEBHOOK_SECRET")).verify(request.raw_post, headers)
    logger.info("#{headers["webhook-id"]} #{event}")
    head :no_content
  rescue StandardWebhooks::WebhookVerificationError => error
    render plain: error.message, status: :unauthorized
  end
end

Rails.application.initialize!
run Rails.application
